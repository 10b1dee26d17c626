//! `profile`.

use crate::cli::{Global, Profile};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings, table};
use kernelseek_core::finding::Severity;
use kernelseek_core::problem::Target;
use kernelseek_evaluator::cuda_profile::table::KernelLaunch;
use kernelseek_evaluator::cuda_profile::{self, ProfileError, Trouble};
use kernelseek_evaluator::event::{Event, Sink as _};
use kernelseek_evaluator::fault::chain;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::Tier;
use kernelseek_evaluator::solo::{self, SoloBench};
use std::path::PathBuf;
use std::time::Duration;

/// How long a profile may take. A full set replays every kernel some forty times.
const DEADLINE: Duration = Duration::from_secs(600);
/// What is always said about the durations.
const NOT_COUNTED: &str =
    "durations are the profiler's own: kernels are replayed, caches flushed. None of them is ever counted.";

pub(crate) fn run(args: &Profile, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let mut settings = settings::resolve(global, Tier::Quick)?;
    settings.only = args.scenario.iter().cloned().collect();
    let folder = settings::problem_folder(args.problem.as_deref(), &args.candidate)?;
    let mut session = Session::open(&folder, Some(&args.candidate), &settings)?;
    // A scenario of any set may be named: the sets say what is evaluated together.
    let known = |session: &Session, id: &String| session.files.scenarios.iter().any(|s| s.id == *id);
    if let Some(id) = args.scenario.as_ref().filter(|id| !known(&session, id)) {
        for (set, _) in session.files.problem.scenarios.files.clone() {
            settings.set = Some(set);
            let other = Session::open(&folder, Some(&args.candidate), &settings)?;
            if known(&other, id) {
                session = other;
                break;
            }
        }
    }
    if session.files.problem.target != Target::Cuda {
        return Err(CommandError::new(
            Kind::Usage,
            format!(
                "`{}` is a problem of the cpu target, and profile is for the cuda target",
                session.files.problem.name
            ),
        )
        .with_hint("on the CPU, `perf record` on a program of your own does this"));
    }
    let ncu = match &args.ncu {
        Some(file) if file.is_file() => file.canonicalize().map_err(|e| CommandError::file(file, &e))?,
        Some(file) => {
            return Err(CommandError::new(Kind::Usage, format!("{}: there is no such file", file.display())));
        }
        None => solo::find_tool(&settings.path, "ncu").ok_or_else(|| {
            CommandError::new(Kind::Toolchain, "ncu (Nsight Compute) was not found").with_hint(
                "it comes with the CUDA toolkit: put its folder on PATH, or name it with `--ncu FILE`",
            )
        })?,
    };
    let case = session.cases()?.into_iter().next().ok_or_else(|| {
        CommandError::new(Kind::Input, "the problem has no quick scenario")
            .with_hint("name one with `--scenario ID`")
    })?;
    let mut progress = Progress::new(printer);
    let artifact = match session.candidate(&mut progress)? {
        Ok(artifact) => artifact,
        Err(findings) => {
            progress.finish();
            let text: Vec<String> = findings
                .iter()
                .flat_map(|f| std::iter::once(&f.message).chain(&f.evidence))
                .map(ToString::to_string)
                .collect();
            return Err(CommandError::new(Kind::Input, text.join("\n")));
        }
    };
    // What may not run under the evaluator does not run here either, where there is less of a fence.
    if let Some(finding) = session.inspect(&mut progress)?.into_iter().find(|f| f.severity == Severity::Fail)
    {
        progress.finish();
        return Err(CommandError::new(Kind::Input, format!("{} [{}]", finding.message, finding.defence))
            .with_hint("`kernelseek build` shows everything that is not allowed"));
    }
    let tool = format!("ncu, set {}", args.set.set().as_str());
    progress.on(&Event::UnderTool { tool, scenario: case.id.clone() });
    let bench = SoloBench {
        helper: settings.helper.clone(),
        artifact: artifact.path().to_owned(),
        entry: session.files.problem.name.clone(),
        gpu: session.gpu_identity().map(|gpu| gpu.uuid),
        secret: settings.secret,
        libraries: session.cuda_libraries(),
        namespaces: settings.namespaces,
        scratch: settings.state_dir.join("scratch"),
        deadline: DEADLINE,
    };
    let outcome = cuda_profile::run(&bench, &ncu, &case, args.set.set(), &args.output);
    progress.finish();
    let profile = outcome.map_err(error)?;
    if printer.json {
        printer.json(&serde_json::json!({ "profile": profile, "counted": false, "note": NOT_COUNTED }))?;
        return Ok(exit::OK);
    }
    let style = printer.out;
    let mut text = format!("{} {}\n", style.strong("report"), report_path(&profile.report).display());
    text.push_str(&format!(
        "scenario {}, set {}, clocks left alone\n\n",
        profile.scenario,
        profile.set.as_str()
    ));
    text.push_str(&launches(&profile.launches, printer.width()));
    text.push('\n');
    for note in profile.notes.iter().map(String::as_str).chain([NOT_COUNTED]) {
        text.push_str(&crate::wrap::hanging("note: ", note, printer.width()));
    }
    printer.data(&text);
    Ok(exit::OK)
}

fn report_path(report: &std::path::Path) -> PathBuf {
    report.canonicalize().unwrap_or_else(|_| report.to_owned())
}

fn error(error: ProfileError) -> CommandError {
    match error {
        ProfileError::Trouble(trouble) => {
            let (what, fix) = trouble.advice();
            let kind = match trouble {
                Trouble::NoKernels | Trouble::Calls(_) => Kind::Input,
                Trouble::Mismatch(_) => Kind::Toolchain,
                _ => Kind::Harness,
            };
            CommandError::new(kind, what).with_hint(fix)
        }
        ProfileError::Run(_) | ProfileError::File { .. } => CommandError::new(Kind::Harness, chain(&error)),
    }
}

/// One row a launch.
fn launches(launches: &[KernelLaunch], width: usize) -> String {
    let header = ["kernel", "grid", "block", "time", "SM", "memory", "occupancy", "regs", "shared", "DRAM"];
    let numeric = [false, false, false, true, true, true, true, true, true, true];
    let mut out = table::plain(width.saturating_sub(2), &header, &numeric);
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1} %"));
    for launch in launches {
        let moved = match (launch.dram_read_bytes, launch.dram_write_bytes) {
            (None, None) => None,
            (read, written) => Some(read.unwrap_or(0.0) + written.unwrap_or(0.0)),
        };
        out.add_row(vec![
            short(&launch.kernel),
            dimensions(&launch.grid),
            dimensions(&launch.block),
            launch.duration_ns.map_or_else(|| "-".to_owned(), table::time),
            percent(launch.sm_percent),
            percent(launch.memory_percent),
            percent(launch.occupancy_percent),
            launch.registers.map_or_else(|| "-".to_owned(), |r| format!("{r:.0}")),
            launch.shared_bytes.map_or_else(|| "-".to_owned(), table::bytes),
            moved.map_or_else(|| "-".to_owned(), table::bytes),
        ]);
    }
    table::lines(&out)
}

/// A kernel's name without its arguments, not longer than a column may be.
fn short(kernel: &str) -> String {
    let name = kernel.split('(').next().unwrap_or(kernel).trim();
    if name.chars().count() <= 28 { name.to_owned() } else { name.chars().take(27).chain(['…']).collect() }
}

/// `(4096, 1, 1)` as `4096`, `(16, 4, 1)` as `16×4`.
fn dimensions(text: &str) -> String {
    let mut parts: Vec<&str> = text.trim_matches(['(', ')']).split(',').map(str::trim).collect();
    while parts.len() > 1 && parts.last() == Some(&"1") {
        parts.pop();
    }
    parts.join("×")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_fits_eighty_columns() {
        let rows = [
            KernelLaunch {
                kernel: "softmax_rows(const float *, float *, long, long)".into(),
                grid: "(4096, 1, 1)".into(),
                block: "(32, 8, 1)".into(),
                duration_ns: Some(12352.0),
                sm_percent: Some(22.25),
                memory_percent: Some(71.5),
                occupancy_percent: Some(88.1),
                registers: Some(32.0),
                shared_bytes: Some(1564.0),
                dram_read_bytes: Some(16.78e6),
                dram_write_bytes: Some(16.0e6),
            },
            KernelLaunch { kernel: "tail".into(), grid: "(1, 1, 1)".into(), ..KernelLaunch::default() },
        ];
        let text = launches(&rows, 100);
        assert!(text.contains("4096") && text.contains("32×8") && text.contains("12.35 µs"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        let narrow = launches(&rows, 80);
        assert!(narrow.lines().all(|l| l.chars().count() <= 80), "{narrow}");
    }
}
