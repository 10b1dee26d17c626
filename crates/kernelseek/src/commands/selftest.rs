//! `selftest`.

mod on_gpu;

use crate::cli::{Global, Section, Selftest};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings};
use kernelseek_core::problem::Target;
use kernelseek_evaluator::selftest::budget::Budget;
use kernelseek_evaluator::selftest::{self, AA_RUNS, SLOWDOWNS, SelftestRecord};
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::{Settings, Tier};
use kernelseek_evaluator::stand::Stand;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Scenario set that the self-test takes where a problem has it.
const SET: &str = "selftest";
/// Runs of the seed against itself when nothing is recorded.
const SHORT_AA: usize = 2;

/// Sections of the cpu target.
const ON_CPU: [Section; 3] = [Section::Aa, Section::Slowdown, Section::Hostile];

/// A self-test that is going on.
struct Going<'a> {
    args: &'a Selftest,
    settings: Settings,
    /// Where the record is kept.
    file: Option<PathBuf>,
    record: SelftestRecord,
    stand: Stand,
    budget: Budget,
    printer: &'a Printer,
}

pub(crate) fn run(args: &Selftest, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    if let Some(file) = &args.recompute {
        return recompute(file, printer);
    }
    let mut settings = settings::resolve(global, Tier::Default)?;
    let mut session = Session::open(&args.problem, None, &settings)?;
    // A problem may carry a set of its own for this, with enough scenarios for the statistics.
    if session.files.problem.scenarios.files.iter().any(|(name, _)| name == SET) {
        settings.set = Some(SET.to_owned());
        session = Session::open(&args.problem, None, &settings)?;
    }
    let target = session.files.problem.target;
    let there_are: &[Section] = if target == Target::Cuda { &on_gpu::SECTIONS } else { &ON_CPU };
    if let Some(other) = args.section.iter().find(|s| !there_are.contains(s)) {
        let names: Vec<String> = there_are.iter().map(|s| name(*s)).collect();
        let target = if target == Target::Cuda { "cuda" } else { "cpu" };
        return Err(CommandError::new(
            Kind::Usage,
            format!("the {target} target has no section `{}`", name(*other)),
        )
        .with_hint(format!("it has {}", names.join(", "))));
    }
    let mut stand = Stand::default();
    if target == Target::Cuda {
        let mut progress = Progress::new(printer);
        session.gpu(&mut progress)?;
        progress.finish();
        stand.keep(&session);
    }
    let commit = args.commit.clone().or_else(commit);
    let mut fresh = SelftestRecord::new(&session, env!("CARGO_PKG_VERSION"), commit);
    fresh.command = (target == Target::Cuda).then(command);
    drop(session);
    let file = args.record.as_ref().map(|file| {
        let model = fresh.gpu.as_ref().map(|gpu| gpu.name.as_str());
        file.clone().unwrap_or_else(|| Path::new("results").join(folder(model)).join("selftest.json"))
    });
    let record = match file.as_deref().and_then(SelftestRecord::load) {
        Some(mut known) if known.goes_on_as(&fresh) => {
            if !fresh.moments.is_empty() {
                known.moments.append(&mut fresh.moments);
                known.commit = fresh.commit;
            }
            known
        }
        Some(_) => {
            printer.talk("the record is of another problem or device: starting afresh");
            fresh
        }
        None => fresh,
    };
    let budget = Budget::new(args.budget.map(Duration::from_secs));
    let mut going = Going { args, settings, file, record, stand, budget, printer };
    match target {
        Target::Cuda => on_gpu::run(&mut going)?,
        Target::Cpu => {
            if going.wants(Section::Aa) {
                going.aa()?;
            }
            if going.wants(Section::Slowdown) && going.file.is_some() {
                going.slowdown()?;
            }
            if going.wants(Section::Hostile) {
                going.hostile("cheats")?;
            }
        }
    }
    going.record.total();
    going.save()?;
    if args.budget.is_some() && !going.budget.allows() {
        going.printer.talk("stopped before the budget was spent: the same command goes on from the record");
    }
    report(&going.record, going.file.is_some(), printer)
}

fn name(section: Section) -> String {
    format!("{section:?}").to_lowercase()
}

/// Folder of a device's records: the model's last word, `h200` of `NVIDIA H200`.
fn folder(model: Option<&str>) -> String {
    let word = |model: &str| {
        let known: String = model
            .split_whitespace()
            .find(|w| w.bytes().any(|b| b.is_ascii_digit()))
            .unwrap_or("gpu")
            .to_lowercase();
        known.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
    };
    model.map_or_else(|| "cpu".to_owned(), word)
}

/// The command line, for the record: without the path of this program.
fn command() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("kernelseek {}", args.join(" "))
}

impl Going<'_> {
    fn wants(&self, section: Section) -> bool {
        self.args.section.is_empty() || self.args.section.contains(&section)
    }

    /// Settings with a secret of their own for each part of the self-test.
    fn derived(&self, label: &str, index: usize) -> Settings {
        let secret =
            *blake3::keyed_hash(&self.settings.secret, format!("{label}/{index}").as_bytes()).as_bytes();
        Settings { secret, ..self.settings.clone() }
    }

    fn save(&self) -> Result<(), CommandError> {
        save(self.file.as_deref(), &self.record)
    }

    fn spent(&mut self, section: &str, start: Instant) {
        *self.record.seconds.entry(section.to_owned()).or_default() += start.elapsed().as_secs_f64();
    }

    /// One run of the seed of `problem` against itself.
    fn aa_run(&mut self, problem: &Path, of: usize) -> Result<(), CommandError> {
        let start = Instant::now();
        let mut progress = Progress::new(self.printer);
        let settings = self.derived("aa", self.record.aa_runs.len());
        let run = selftest::run_aa(problem, &settings, &mut self.stand, &mut progress)?;
        progress.finish();
        self.printer.talk(&format!(
            "aa {} of {of}: geomean {:.4}, {} of {} say faster ({:.1} s)",
            self.record.aa_runs.len() + 1,
            run.geomean,
            run.false_faster,
            run.verdicts,
            run.seconds
        ));
        self.record.aa_runs.push(run);
        self.record.total();
        self.spent("aa", start);
        self.budget.took(start.elapsed());
        self.save()
    }

    fn aa(&mut self) -> Result<(), CommandError> {
        let runs = if self.file.is_some() { AA_RUNS } else { SHORT_AA };
        while self.record.aa_runs.len() < runs && self.budget.allows() {
            self.aa_run(&self.args.problem.clone(), runs)?;
        }
        Ok(())
    }

    fn slowdown(&mut self) -> Result<(), CommandError> {
        let start = Instant::now();
        let settings = self.derived("slowdown", 0);
        self.budget.next_section();
        if !self.budget.allows() {
            return Ok(());
        }
        let (budget, mut last) = (&mut self.budget, Instant::now());
        let mut progress = Progress::new(self.printer);
        let mut done = std::mem::take(&mut self.record.slowdown);
        let mut failed = None;
        let (record, file, printer) = (&mut self.record, self.file.as_deref(), self.printer);
        let outcome =
            selftest::run_slowdown(&self.args.problem, &settings, &mut done, &mut progress, |trials| {
                if trials.len().is_multiple_of(10) {
                    let found = trials.iter().filter(|t| t.found).count();
                    printer.talk(&format!("slowdown {} of {SLOWDOWNS}: {found} found", trials.len()));
                    record.slowdown = trials.to_vec();
                    record.total();
                    failed = failed.take().or_else(|| save(file, record).err());
                }
                budget.took(last.elapsed());
                last = Instant::now();
                budget.allows()
            });
        progress.finish();
        self.record.slowdown = done;
        outcome?;
        failed.map_or(Ok(()), Err)?;
        self.spent("slowdown", start);
        Ok(())
    }

    /// The catalogue in the folder that was named, or in `folder`.
    fn hostile(&mut self, folder: &str) -> Result<(), CommandError> {
        let start = Instant::now();
        self.budget.next_section();
        let mut progress = Progress::new(self.printer);
        let folder = self.args.cheats.clone().unwrap_or_else(|| folder.into());
        let mut done = std::mem::take(&mut self.record.hostile);
        let settings = self.settings.clone();
        let mut failed = None;
        let (record, file, printer) = (&mut self.record, self.file.as_deref(), self.printer);
        let outcome = selftest::run_hostile(
            &folder,
            self.args.rounds,
            &settings,
            &mut done,
            &mut self.stand,
            &mut self.budget,
            &mut progress,
            |trials| {
                if trials.len().is_multiple_of(10) {
                    let right = trials.iter().filter(|t| t.is_right()).count();
                    printer.talk(&format!("hostile: {right} of {} as expected", trials.len()));
                }
                record.hostile = trials.to_vec();
                failed = failed.take().or_else(|| save(file, record).err());
            },
        );
        progress.finish();
        self.record.hostile = done;
        let outcome =
            outcome.map_err(|e| CommandError::new(Kind::Input, kernelseek_evaluator::fault::chain(&e)));
        // What was measured before a failure is kept.
        self.spent("hostile", start);
        self.save()?;
        outcome?;
        failed.map_or(Ok(()), Err)
    }
}

fn recompute(file: &Path, printer: &Printer) -> Result<u8, CommandError> {
    let record = SelftestRecord::load(file).ok_or_else(|| {
        CommandError::new(
            Kind::Input,
            format!("{} is not a self-test record of this version", file.display()),
        )
    })?;
    let differences = selftest::recompute(&record);
    if printer.json {
        printer.json(&differences)?;
    } else if differences.is_empty() {
        printer.data(&format!(
            "every figure follows from the raw pairs: {} runs, {} verdicts, {} {}\n",
            record.aa_runs.len(),
            record.verdicts,
            record.slowdown_tried,
            if record.on_gpu() { "gains" } else { "slowdowns" }
        ));
    } else {
        printer.data(&(differences.join("\n") + "\n"));
    }
    Ok(if differences.is_empty() { exit::OK } else { exit::UNMET })
}

fn report(record: &SelftestRecord, recorded: bool, printer: &Printer) -> Result<u8, CommandError> {
    let misses = record.misses();
    let means = record.means();
    // Nobody expects a whole record of what is not recorded.
    let lacks = if recorded && record.on_gpu() { record.lacks() } else { Vec::new() };
    if printer.json {
        printer.json(&serde_json::json!({
            "aa_runs": record.aa_runs.iter().map(|r| r.geomean).collect::<Vec<_>>(),
            "means": {"of": means.of, "hold": means.hold, "half_width": means.median},
            "verdicts": record.verdicts,
            "false_faster": record.false_faster,
            "slowdown_tried": record.slowdown_tried,
            "slowdown_found": record.slowdown_found,
            "false_one_percent": record.false_one_percent,
            "hostile": record.hostile.len(),
            "faults": record.faults.len(),
            "timer_agreement": record.timer_agreement.len(),
            "throughput": record.throughput,
            "lacks": lacks,
            "misses": misses,
        }))?;
    } else {
        let style = printer.out;
        let worst = record.aa_runs.iter().map(|r| (r.geomean - 1.0).abs()).fold(0.0, f64::max);
        let mut text = String::new();
        if !record.aa_runs.is_empty() {
            text.push_str(&format!(
                "seed against itself: {} runs, worst geomean off by {:.2} %; {} of {} verdicts say faster\n",
                record.aa_runs.len(),
                100.0 * worst,
                record.false_faster,
                record.verdicts
            ));
            text.push_str(&format!(
                "intervals of the geomean: median ±{:.2} %, {} of {} hold 1\n",
                100.0 * means.median,
                means.hold,
                means.of
            ));
        }
        if record.on_gpu() {
            text.push_str(&on_gpu::summary(record));
        } else if record.slowdown_tried > 0 {
            text.push_str(&format!(
                "planted slowdowns: {} of {} found\n",
                record.slowdown_found, record.slowdown_tried
            ));
        }
        if !record.hostile.is_empty() {
            let right = record.hostile.iter().filter(|t| t.is_right()).count();
            text.push_str(&format!(
                "hostile candidates: {right} of {} trials as expected\n",
                record.hostile.len()
            ));
        }
        for miss in &misses {
            text.push_str(&format!("{} {miss}\n", style.bad("✗")));
        }
        for lack in &lacks {
            text.push_str(&format!("{} {lack}; the same command goes on\n", style.faint("…")));
        }
        if misses.is_empty() {
            text.push_str(&format!("{} every bar is met by what was run\n", style.good("✓")));
        }
        printer.data(&text);
    }
    Ok(if misses.is_empty() && lacks.is_empty() { exit::OK } else { exit::UNMET })
}

fn save(file: Option<&Path>, record: &SelftestRecord) -> Result<(), CommandError> {
    match file {
        Some(file) => record.save(file).map_err(|(path, e)| CommandError::file(&path, &e)),
        None => Ok(()),
    }
}

/// The commit of the working folder, for the record.
fn commit() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_model_have_a_folder() {
        for (model, expected) in [
            (None, "cpu"),
            (Some("NVIDIA H200"), "h200"),
            (Some("NVIDIA H100 80GB HBM3"), "h100"),
            (Some("NVIDIA A100-SXM4-40GB"), "a100sxm440gb"),
            (Some("Quadro"), "gpu"),
            (Some("../x9/y"), "x9y"),
        ] {
            assert_eq!(folder(model), expected, "{model:?}");
        }
    }
}
