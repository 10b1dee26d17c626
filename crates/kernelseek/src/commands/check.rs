//! `check`.

use crate::cli::{Check, Global};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::style::Style;
use crate::{exit, settings, table, verdict_view};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::Word;
use kernelseek_core::wording::counted;
use kernelseek_evaluator::check::{self, CheckReport};
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::Tier;
use kernelseek_supervisor::Site;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &Check, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let folder = problem(args)?;
    let report = checked(&folder, args.set.as_deref(), &args.scenario, global, printer)?;
    if printer.json {
        printer.json(&report)?;
    } else {
        printer.data(&render(&report, printer));
    }
    Ok(if report.word == Word::Fail { exit::UNMET } else { exit::OK })
}

/// The folder that is meant: the one that was named, the current one, or the campaign's problem.
fn problem(args: &Check) -> Result<PathBuf, CommandError> {
    if let Some(named) = args.problem.as_ref().or(args.named.as_ref()) {
        return Ok(named.clone());
    }
    let here = PathBuf::from(".");
    if here.join("problem.toml").is_file() {
        return Ok(here);
    }
    Site::find(&here)?.map(|site| site.problem()).ok_or_else(|| {
        CommandError::new(Kind::Usage, "there is neither a problem.toml nor a campaign.toml here")
            .with_hint("name the problem's folder: `kernelseek check DIR`")
    })
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
    let mut text =
        format!("{word}  problem {}: {}\n\n", report.problem, counted(report.scenarios.len(), "scenario"));
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
    // One scenario stands for all that show the same; the others are named beside it.
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for s in &report.scenarios {
        for f in &s.findings {
            let same = (f.defence.as_str(), f.message.as_str());
            if shown.contains(&same) {
                continue;
            }
            shown.push(same);
            text.push_str(&explain(&format!("{}: ", s.id), f, style));
            let also: Vec<&str> = report
                .scenarios
                .iter()
                .filter(|o| {
                    o.id != s.id
                        && o.findings.iter().any(|g| (g.defence.as_str(), g.message.as_str()) == same)
                })
                .map(|o| o.id.as_str())
                .collect();
            if !also.is_empty() {
                text.push_str(&format!("    also: {}\n", verdict_view::abbreviate(&also)));
            }
        }
    }
    for f in &report.findings {
        text.push_str(&explain("", f, style));
    }
    text.push_str(&format!("the seed against itself: {:.4}×\n", report.seed_to_itself));
    let next = report
        .scenarios
        .iter()
        .flat_map(|s| &s.findings)
        .chain(&report.findings)
        // The first of the worst, which is the one that is shown first.
        .rev()
        .max_by_key(|f| f.severity)
        .and_then(|f| f.next.as_ref());
    if let Some(next) = next {
        text.push_str(&format!("{} {next}\n", style.strong("next:")));
    }
    text
}

fn explain(place: &str, finding: &Finding, style: Style) -> String {
    let mark = if finding.severity == Severity::Fail { style.bad("✗") } else { style.doubtful("!") };
    let mut text = format!("{mark} {place}{} ({})\n", finding.message, finding.defence);
    for evidence in &finding.evidence {
        text.push_str(&format!("    {evidence}\n"));
    }
    text
}
