//! `check`.

use crate::cli::{Check, Global};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings, table};
use kernelseek_core::finding::Severity;
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::check::{self, CheckReport};
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::Tier;
use std::path::Path;

pub(crate) fn run(args: &Check, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let report = checked(&args.problem, args.set.as_deref(), &args.scenario, global, printer)?;
    if printer.json {
        printer.json(&report)?;
    } else {
        printer.data(&render(&report, printer));
    }
    Ok(if report.word == Word::Fail { exit::UNMET } else { exit::OK })
}

/// Checks the problem in a folder.
pub(crate) fn checked(
    problem: &Path,
    set: Option<&str>,
    only: &[String],
    global: &Global,
    printer: &Printer,
) -> Result<CheckReport, CommandError> {
    let mut settings = settings::resolve(global, Tier::Default)?;
    settings.set = set.map(str::to_owned);
    settings.only = only.to_vec();
    let mut progress = Progress::new(printer);
    let mut session = Session::open(problem, None, &settings)?;
    let report = check::check(&mut session, &settings, &mut progress)?;
    progress.finish();
    Ok(report)
}

pub(crate) fn render(report: &CheckReport, printer: &Printer) -> String {
    let style = printer.out;
    let word = match report.word {
        Word::Pass => style.good("PASS"),
        Word::Fail => style.bad("FAIL"),
        other => style.doubtful(other.as_str()),
    };
    let mut text = format!("{word}  problem {}: {} scenarios\n\n", report.problem, report.scenarios.len());
    let mut table = table::plain(
        printer.width().saturating_sub(2),
        &["scenario", "seed error", "model error", "seed to itself", "accepts"],
        &[false, true, true, true, false],
    );
    for s in &report.scenarios {
        let accepted: Vec<&str> = s.accepted.iter().map(|t| t.as_str()).collect();
        table.add_row(vec![
            s.id.clone(),
            format!("{:.1e}", s.seed_error),
            s.model_error.map_or_else(|| "-".to_owned(), |e| format!("{e:.1e}")),
            s.aa_spread.map_or_else(|| "-".to_owned(), |a| format!("±{:.2} %", 100.0 * a)),
            if accepted.is_empty() { "nothing trivial".to_owned() } else { accepted.join(", ") },
        ]);
    }
    text.push_str(&table::lines(&table));
    text.push('\n');
    for s in &report.scenarios {
        for f in &s.findings {
            text.push_str(&format!("{} {}: {} ({})\n", style.bad("✗"), s.id, f.message, f.defence));
            for evidence in &f.evidence {
                text.push_str(&format!("    {evidence}\n"));
            }
        }
    }
    for f in &report.findings {
        let mark = if f.severity == Severity::Fail { style.bad("✗") } else { style.doubtful("!") };
        text.push_str(&format!("{mark} {} ({})\n", f.message, f.defence));
        for evidence in &f.evidence {
            text.push_str(&format!("    {evidence}\n"));
        }
    }
    text.push_str(&format!("the seed against itself: {:.4}×\n", report.seed_to_itself));
    let next = report
        .scenarios
        .iter()
        .flat_map(|s| &s.findings)
        .chain(&report.findings)
        .max_by_key(|f| f.severity)
        .and_then(|f| f.next.as_ref());
    if let Some(next) = next {
        text.push_str(&format!("{} {next}\n", style.strong("next:")));
    }
    text
}
