//! `selftest`.

use crate::cli::{Global, Section, Selftest};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings};
use kernelseek_evaluator::selftest::{self, AA_RUNS, SLOWDOWNS, SelftestRecord};
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::{Settings, Tier};
use std::path::Path;
use std::time::Instant;

/// Scenario set that the self-test takes where a problem has it.
const SET: &str = "selftest";
/// Runs of the seed against itself when nothing is recorded.
const SHORT_AA: usize = 2;

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
    let fresh = || SelftestRecord::new(&session, env!("CARGO_PKG_VERSION"), commit());
    let mut record = match args.record.as_deref().and_then(SelftestRecord::load) {
        Some(known) if known.problem_hash == session.files.hash && known.device == fresh().device => known,
        Some(_) => {
            printer.talk("the record is of another problem or device: starting afresh");
            fresh()
        }
        None => fresh(),
    };
    let wanted = |section| args.section.is_empty() || args.section.contains(&section);
    if wanted(Section::Aa) {
        aa(args, &settings, &mut record, printer)?;
    }
    if wanted(Section::Slowdown) && args.record.is_some() {
        slowdown(args, &settings, &mut record, printer)?;
    }
    if wanted(Section::Hostile) {
        hostile(args, &settings, &mut record, printer)?;
    }
    record.total();
    save(args, &record)?;
    report(&record, printer)
}

fn aa(
    args: &Selftest,
    settings: &Settings,
    record: &mut SelftestRecord,
    printer: &Printer,
) -> Result<(), CommandError> {
    let runs = if args.record.is_some() { AA_RUNS } else { SHORT_AA };
    let start = Instant::now();
    while record.aa_runs.len() < runs {
        let mut progress = Progress::new(printer);
        let settings = Settings { secret: derive(settings, "aa", record.aa_runs.len()), ..settings.clone() };
        let run = selftest::run_aa(&args.problem, &settings, &mut progress)?;
        progress.finish();
        printer.talk(&format!(
            "aa {} of {runs}: geomean {:.4}, {} of {} say faster ({:.1} s)",
            record.aa_runs.len() + 1,
            run.geomean,
            run.false_faster,
            run.verdicts,
            run.seconds
        ));
        record.aa_runs.push(run);
        record.total();
        save(args, record)?;
    }
    *record.seconds.entry("aa".into()).or_default() += start.elapsed().as_secs_f64();
    Ok(())
}

fn slowdown(
    args: &Selftest,
    settings: &Settings,
    record: &mut SelftestRecord,
    printer: &Printer,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let mut progress = Progress::new(printer);
    let mut done = std::mem::take(&mut record.slowdown);
    let settings = Settings { secret: derive(settings, "slowdown", 0), ..settings.clone() };
    let mut failed = None;
    let outcome = selftest::run_slowdown(&args.problem, &settings, &mut done, &mut progress, |trials| {
        if trials.len().is_multiple_of(10) {
            let found = trials.iter().filter(|t| t.found).count();
            printer.talk(&format!("slowdown {} of {SLOWDOWNS}: {found} found", trials.len()));
            record.slowdown = trials.to_vec();
            record.total();
            failed = failed.take().or_else(|| save(args, record).err());
        }
    });
    progress.finish();
    record.slowdown = done;
    outcome?;
    if let Some(error) = failed {
        return Err(error);
    }
    *record.seconds.entry("slowdown".into()).or_default() += start.elapsed().as_secs_f64();
    Ok(())
}

fn hostile(
    args: &Selftest,
    settings: &Settings,
    record: &mut SelftestRecord,
    printer: &Printer,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let mut progress = Progress::new(printer);
    let done = record.hostile.iter().map(|t| t.round).max().unwrap_or(0);
    for round in done + 1..=args.rounds {
        let trials = selftest::run_hostile(&args.cheats, round, settings, &mut progress)
            .map_err(|e| CommandError::new(Kind::Input, kernelseek_evaluator::fault::chain(&e)))?;
        let right = trials.iter().filter(|t| t.as_expected && t.next_right && t.in_time).count();
        printer.talk(&format!("hostile round {round}: {right} of {} as expected", trials.len()));
        record.hostile.extend(trials);
        save(args, record)?;
    }
    progress.finish();
    *record.seconds.entry("hostile".into()).or_default() += start.elapsed().as_secs_f64();
    Ok(())
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
            "every figure follows from the raw pairs: {} runs, {} verdicts, {} slowdowns\n",
            record.aa_runs.len(),
            record.verdicts,
            record.slowdown_tried
        ));
    } else {
        printer.data(&(differences.join("\n") + "\n"));
    }
    Ok(if differences.is_empty() { exit::OK } else { exit::UNMET })
}

fn report(record: &SelftestRecord, printer: &Printer) -> Result<u8, CommandError> {
    let misses = record.misses();
    if printer.json {
        printer.json(&serde_json::json!({
            "aa_runs": record.aa_runs.iter().map(|r| r.geomean).collect::<Vec<_>>(),
            "verdicts": record.verdicts,
            "false_faster": record.false_faster,
            "slowdown_tried": record.slowdown_tried,
            "slowdown_found": record.slowdown_found,
            "hostile": record.hostile.len(),
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
        }
        if record.slowdown_tried > 0 {
            text.push_str(&format!(
                "planted slowdowns: {} of {} found\n",
                record.slowdown_found, record.slowdown_tried
            ));
        }
        if !record.hostile.is_empty() {
            let right = record.hostile.iter().filter(|t| t.as_expected && t.next_right && t.in_time).count();
            text.push_str(&format!(
                "hostile candidates: {right} of {} trials as expected\n",
                record.hostile.len()
            ));
        }
        for miss in &misses {
            text.push_str(&format!("{} {miss}\n", style.bad("✗")));
        }
        if misses.is_empty() {
            text.push_str(&format!("{} every bar is met by what was run\n", style.good("✓")));
        }
        printer.data(&text);
    }
    Ok(if misses.is_empty() { exit::OK } else { exit::UNMET })
}

fn save(args: &Selftest, record: &SelftestRecord) -> Result<(), CommandError> {
    match &args.record {
        Some(file) => record.save(file).map_err(|(path, e)| CommandError::file(&path, &e)),
        None => Ok(()),
    }
}

/// A secret of its own for each part of the self-test.
fn derive(settings: &Settings, label: &str, index: usize) -> [u8; 32] {
    *blake3::keyed_hash(&settings.secret, format!("{label}/{index}").as_bytes()).as_bytes()
}

/// The commit of the working folder, for the record.
fn commit() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
