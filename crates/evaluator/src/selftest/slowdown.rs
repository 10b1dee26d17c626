//! Planted slowdowns: a copy of the seed that executes a known share of its own work twice, through the same
//! evaluation as any candidate.
//!
//! The copy is `slowdown.c` in the problem's folder. Its size is confirmed by counting instructions, not by timing.

use super::{Raw, SLOWDOWNS, SlowdownTrial};
use crate::evaluate::{self, EvaluateError};
use crate::event::Sink;
use crate::session::{Session, SessionError};
use crate::settings::Settings;
use kernelseek_core::verdict::Standing;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the slowed copy in a problem's folder.
const SOURCE: &str = "slowdown.c";

/// Plants slowdowns until there are [`SLOWDOWNS`] trials, or `kept` says to stop; `done` are kept. Scenarios take turns.
///
/// # Errors
/// When the seed or the reference fails.
pub fn run(
    folder: &Path,
    settings: &Settings,
    done: &mut Vec<SlowdownTrial>,
    sink: &mut dyn Sink,
    mut kept: impl FnMut(&[SlowdownTrial]) -> bool,
) -> Result<(), EvaluateError> {
    let source = folder.join(SOURCE);
    let scenarios = eligible(folder, settings)?;
    let mut counts: std::collections::BTreeMap<String, Option<f64>> = std::collections::BTreeMap::new();
    while done.len() < SLOWDOWNS {
        let scenario = scenarios[done.len() % scenarios.len()].clone();
        let mut settings = settings.clone();
        settings.only = vec![scenario.clone()];
        // Every trial has a secret of its own.
        settings.secret = *blake3::keyed_hash(&settings.secret, &done.len().to_le_bytes()).as_bytes();
        let mut session = Session::open(folder, Some(&source), &settings)?;
        let evaluation = evaluate::evaluate(&mut session, &settings, sink)?;
        let instructions = match counts.get(&scenario) {
            Some(known) => *known,
            None => {
                let counted = extra_instructions(&session, folder, &scenario, &settings);
                counts.insert(scenario.clone(), counted);
                counted
            }
        };
        let spread = evaluation.spreads.get(&scenario).copied().unwrap_or(0.0);
        let judged = evaluation.verdict.scenarios.into_iter().next();
        let Some((judged, ratio)) = judged.and_then(|s| s.ratio.map(|r| (s, r))) else { continue };
        done.push(SlowdownTrial {
            found: judged.standing == Some(Standing::Slower),
            scenario: scenario.clone(),
            instructions,
            ratio,
            gain: None,
            raw: Raw(evaluation.raw.get(&scenario).cloned().unwrap_or_default()),
            aa_spread: spread,
        });
        if !kept(done) {
            break;
        }
    }
    Ok(())
}

/// Scenarios with the tag `slowdown`: large enough that a twentieth of their work is a whole number of rows.
fn eligible(folder: &Path, settings: &Settings) -> Result<Vec<String>, EvaluateError> {
    let files = crate::problem_files::ProblemFiles::load(folder, settings.set.as_deref())
        .map_err(SessionError::from)?;
    let ids: Vec<String> = files
        .scenarios
        .iter()
        .filter(|s| s.tags.iter().any(|t| t == "slowdown"))
        .map(|s| s.id.clone())
        .collect();
    if ids.is_empty() {
        return Err(SessionError::Problem(crate::problem_files::ProblemError::NoScenario {
            id: "with the tag `slowdown`".into(),
        })
        .into());
    }
    Ok(ids)
}

/// Instructions of the slowed copy over the seed's on one scenario, minus 1, counted by valgrind on builds for a
/// target that it knows.
fn extra_instructions(session: &Session, folder: &Path, scenario: &str, settings: &Settings) -> Option<f64> {
    let valgrind = settings.path.iter().map(|p| p.join("valgrind")).find(|p| p.is_file())?;
    let work = settings.state_dir.join("count");
    std::fs::create_dir_all(&work).ok()?;
    let files = session.files.select(&[scenario.to_owned()]).ok()?;
    let case = session.files.resolve(&files).ok()?.into_iter().next()?;
    let driver = work.join("count_driver.c");
    std::fs::write(&driver, driver_source(&session.files.problem.name, &case)).ok()?;
    let seed = folder.join(&session.files.problem.seed.path);
    let count = |source: &Path, name: &str| -> Option<f64> {
        let program: PathBuf = work.join(name);
        let built = Command::new(&session.toolchain().cc.as_ref()?.program)
            .args(["-O3", "-march=x86-64-v3", "-g", "-I"])
            .arg(session.header_folder())
            .arg("-I")
            .arg(folder)
            .arg("-o")
            .arg(&program)
            .arg(source)
            .arg(&driver)
            .arg("-lm")
            .status()
            .ok()?;
        let output = built.success().then(|| {
            Command::new(&valgrind)
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(format!("--toggle-collect={}", session.files.problem.name))
                .arg(&program)
                .output()
                .ok()
        })??;
        collected(&String::from_utf8_lossy(&output.stderr))
    };
    Some(count(&folder.join(SOURCE), "slowed")? / count(&seed, "seed")? - 1.0)
}

/// The number after `Collected :` in callgrind's summary.
fn collected(text: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.contains("Collected"))?;
    line.rsplit(':').next()?.split_whitespace().next()?.parse().ok()
}

/// A program that makes one call with inputs of ones on the shapes of `case`.
fn driver_source(entry: &str, case: &kernelseek_core::case::Case) -> String {
    let mut text = format!(
        "#include \"{entry}.h\"\n#include <stdlib.h>\nint main(void) {{\n  {entry}_call c = {{0}};\n"
    );
    text.push_str("  c.struct_size = sizeof c; c.abi = 1;\n");
    for t in &case.tensors {
        let Some(storage) = t.storage.and_then(|i| case.storages.get(i)) else { continue };
        text.push_str(&format!(
            "  c.{n}.data = aligned_alloc(256, {bytes}); c.{n}.dtype = {d}; c.{n}.rank = {r};\n",
            n = t.name,
            bytes = storage.bytes().next_multiple_of(256).max(256),
            d = t.dtype as i32,
            r = t.shape.len()
        ));
        text.push_str(&format!(
            "  for (long i = 0; i < {}; i++) ((char *)c.{}.data)[i] = (char)(i * 7 % 61);\n",
            storage.bytes(),
            t.name
        ));
        for (i, (extent, stride)) in t.shape.iter().zip(&t.stride).enumerate() {
            text.push_str(&format!(
                "  c.{}.shape[{i}] = {extent}; c.{}.stride[{i}] = {stride};\n",
                t.name, t.name
            ));
        }
    }
    for (name, value) in &case.attributes {
        match value {
            kernelseek_core::case::AttributeValue::F64(x) => text.push_str(&format!("  c.{name} = {x:?};\n")),
            kernelseek_core::case::AttributeValue::I64(x) => text.push_str(&format!("  c.{name} = {x}ll;\n")),
        }
    }
    text.push_str(&format!("  return (int){entry}(&c);\n}}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrind_summaries_parse() {
        let text = "==1== Events    : Ir\n==1== Collected : 123456\n==1==\n==1== I   refs:      1,234\n";
        assert_eq!(collected(text), Some(123_456.0));
        assert_eq!(collected("nothing"), None);
    }
}
