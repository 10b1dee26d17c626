//! A verdict as a person reads it: one headline, the scenarios worst first, what missed and why, one next step.

use crate::style::Style;
use crate::table;
use crate::wrap::hanging;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{GpuSplit, ScenarioVerdict, Standing, Trust, Word};
use kernelseek_core::wording::counted;
use kernelseek_evaluator::evaluate::Verdict;
use kernelseek_report::words::{interval, over_bound};

/// Scenarios that are listed; the rest is counted.
const MOST_ROWS: usize = 40;
/// Findings of one defence about the candidate as a whole that are spelled out.
const MOST_OF_A_KIND: usize = 2;
/// Scenarios whose findings are spelled out.
const MOST_EXPLAINED: usize = 6;

/// Columns of the table, and which are numbers.
const HEADER: [&str; 8] = ["", "scenario", "ratio", "interval", "seed", "candidate", "error/bound", ""];
const NUMERIC: [bool; 8] = [false, false, true, false, true, true, true, false];
/// Columns that a narrow terminal does without, in this order.
const DROPPED: [usize; 3] = [4, 5, 6];

/// Renders a verdict.
pub(crate) fn render(verdict: &Verdict, style: Style, width: usize) -> String {
    let mut text = headline(verdict, style, width);
    if !verdict.scenarios.is_empty() {
        text.push('\n');
        text.push_str(&rows(verdict, style, width));
    }
    text.push_str(&explanations(verdict, style));
    text.push_str(&footer(verdict, style));
    text
}

fn word(word: Word, style: Style) -> String {
    let text = word.as_str();
    match word {
        Word::Pass => style.good(text),
        Word::Fail => style.bad(text),
        Word::Unresolved | Word::Unproven | Word::Stale => style.doubtful(text),
    }
}

fn headline(verdict: &Verdict, style: Style, width: usize) -> String {
    let tier = verdict.tier.as_str();
    let how = match &verdict.gpu {
        None => format!("{} caches", verdict.mode.as_str()),
        Some(gpu) => format!("{} column, {}, {}", verdict.column, verdict.mode.as_str(), gpu.name),
    };
    let ratio = verdict.geomean.map_or_else(String::new, |r| format!("  {}", style.strong(&interval(&r))));
    let subject = format!("{} against the seed of {} ({tier}, {how})", verdict.candidate, verdict.problem);
    hanging(&format!("{}{ratio}  ", word(verdict.word, style)), &subject, width)
}

fn rows(verdict: &Verdict, style: Style, width: usize) -> String {
    let rows: Vec<Vec<String>> = verdict.scenarios.iter().take(MOST_ROWS).map(row).collect();
    let kept = kept(&rows, width.saturating_sub(2));
    let pick = |row: &[String]| -> Vec<String> { kept.iter().map(|i| row[*i].clone()).collect() };
    let header: Vec<&str> = kept.iter().map(|i| HEADER[*i]).collect();
    let numeric: Vec<bool> = kept.iter().map(|i| NUMERIC[*i]).collect();
    // The gap behind the last column is cut off again.
    let mut table = table::plain(width, &header, &numeric);
    for row in &rows {
        table.add_row(pick(row));
    }
    let mut text = table::lines(&table);
    if style.colour {
        text = text.replacen('\n', "\x1b[0m\n", 1);
        text.insert_str(0, "\x1b[2m");
    }
    let hidden = verdict.scenarios.len().saturating_sub(MOST_ROWS);
    if hidden > 0 {
        text.push_str(&format!("  … {hidden} more that do better: see --json\n"));
    }
    text
}

/// The columns that fit beside each other: a narrow terminal loses the seed's time first, then the candidate's.
fn kept(rows: &[Vec<String>], width: usize) -> Vec<usize> {
    let longest = |i: usize| {
        rows.iter().map(|row| row[i].chars().count()).chain([HEADER[i].chars().count()]).max().unwrap_or(0)
    };
    let mut kept: Vec<usize> = (0..HEADER.len()).collect();
    for dropped in DROPPED {
        let needed: usize = kept.iter().map(|i| longest(*i) + 2).sum();
        if needed <= width + 2 {
            break;
        }
        kept.retain(|i| *i != dropped);
    }
    kept
}

fn row(s: &ScenarioVerdict) -> Vec<String> {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), table::time);
    let mut notes = Vec::new();
    if s.fallback {
        notes.push("fallback".to_owned());
    }
    if s.audited {
        notes.push("audited".to_owned());
    }
    if let Some(standing) = s.standing {
        match standing {
            Standing::Faster => {}
            Standing::Slower => notes.push("slower".to_owned()),
            Standing::Tie => notes.push("tie".to_owned()),
            Standing::Unresolved => {
                let half = s.ratio.map_or(f64::NAN, |r| 100.0 * r.half_width());
                notes.push(format!("unresolved, ±{half:.0} %"));
            }
        }
    }
    // Another thing was timed than in the rows beside it.
    if s.findings.iter().any(|f| f.defence == "timed.synchronises") {
        notes.push("whole call".to_owned());
    }
    if s.gpu.is_some_and(|g| g.candidate.host_ns > g.candidate.device_ns + g.candidate.idle_ns) {
        notes.push("host-bound".to_owned());
    }
    let denied = s.findings.iter().any(|f| f.defence.starts_with("sandbox.denied"));
    if denied {
        notes.push("denied attempts".to_owned());
    }
    vec![
        s.word.as_str().to_owned(),
        s.id.clone(),
        s.ratio.map_or_else(|| "-".to_owned(), |r| format!("{:.3}×", r.point)),
        s.ratio.map_or_else(String::new, |r| format!("[{:.3}, {:.3}]", r.lo, r.hi)),
        time(s.seed_ns),
        time(s.candidate_ns),
        s.worst_error.as_ref().map_or_else(|| "-".to_owned(), |w| over_bound(w.ratio)),
        notes.join(", "),
    ]
}

fn explanations(verdict: &Verdict, style: Style) -> String {
    let mut text = String::new();
    let mut told: Vec<&str> = Vec::new();
    for finding in verdict.findings.iter().filter(|f| f.severity >= Severity::Warning) {
        // A few of a kind say it all: a denied library comes with a hundred headers.
        match told.iter().filter(|d| **d == finding.defence).count() {
            n if n < MOST_OF_A_KIND => text.push_str(&explain(None, finding, style)),
            n if n == MOST_OF_A_KIND => {
                let more = verdict.findings.iter().filter(|f| f.defence == finding.defence).count() - n;
                text.push_str(&format!("    and {more} more like it ({})\n", finding.defence));
            }
            _ => {}
        }
        told.push(&finding.defence);
    }
    // One scenario stands for all that fail the same way; the others are named beside it.
    let mut shown: Vec<&str> = Vec::new();
    for s in &verdict.scenarios {
        for finding in s.findings.iter().filter(|f| f.severity >= Severity::Warning) {
            if shown.contains(&finding.defence.as_str()) {
                continue;
            }
            if shown.len() == MOST_EXPLAINED {
                break;
            }
            shown.push(&finding.defence);
            let same: Vec<&str> = verdict
                .scenarios
                .iter()
                .filter(|o| o.id != s.id && o.findings.iter().any(|f| f.defence == finding.defence))
                .map(|o| o.id.as_str())
                .collect();
            text.push_str(&explain(Some(&s.id), finding, style));
            if !same.is_empty() {
                text.push_str(&format!("    also: {}\n", abbreviate(&same)));
            }
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Eight ids and how many more there are.
pub(crate) fn abbreviate(ids: &[&str]) -> String {
    let shown = ids.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    let rest = ids.len().saturating_sub(8);
    if rest > 0 { format!("{shown} and {rest} more") } else { shown }
}

fn explain(scenario: Option<&str>, finding: &Finding, style: Style) -> String {
    let mark = match finding.severity {
        Severity::Fail => style.bad("✗"),
        Severity::Unproven => style.doubtful("?"),
        Severity::Warning => style.doubtful("!"),
        Severity::Note => style.faint("·"),
    };
    let place = scenario.map_or_else(String::new, |s| format!("{s}: "));
    let mut text =
        format!("{mark} {place}{} {}\n", finding.message, style.faint(&format!("({})", finding.defence)));
    for evidence in &finding.evidence {
        text.push_str(&format!("    {evidence}\n"));
    }
    text
}

/// Where the time of a call goes on a GPU, over all scenarios.
fn split(verdict: &Verdict) -> Option<String> {
    let all: Vec<GpuSplit> = verdict.scenarios.iter().filter_map(|s| s.gpu).collect();
    let middle = |of: &dyn Fn(&GpuSplit) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).map_or_else(|| "-".to_owned(), |ns| table::time(*ns))
    };
    (!all.is_empty()).then(|| {
        format!(
            "a call in the middle of the set: device {} (seed {}), idle before the next {} ({}), host {} ({})",
            middle(&|g| g.candidate.device_ns),
            middle(&|g| g.seed.device_ns),
            middle(&|g| g.candidate.idle_ns),
            middle(&|g| g.seed.idle_ns),
            middle(&|g| g.candidate.host_ns),
            middle(&|g| g.seed.host_ns),
        )
    })
}

fn footer(verdict: &Verdict, style: Style) -> String {
    let count = |w: Word| verdict.scenarios.iter().filter(|s| s.word == w).count();
    let mut parts: Vec<String> = Vec::new();
    for w in [Word::Pass, Word::Fail, Word::Unproven, Word::Unresolved] {
        let n = count(w);
        if n > 0 {
            parts.push(format!("{n} {}", w.as_str()));
        }
    }
    let fallbacks = verdict.scenarios.iter().filter(|s| s.fallback).count();
    if fallbacks > 0 {
        parts.push(format!("{fallbacks} fallback"));
    }
    let mut text = String::from("\n");
    if !verdict.scenarios.is_empty() {
        let all = counted(verdict.scenarios.len(), "scenario");
        text.push_str(&format!("{all}: {}\n", parts.join(", ")));
    }
    if let Some(h) = &verdict.held_out {
        let gap = h.gap.map_or_else(String::new, |g| {
            format!(", gap {:+.1} % (what they were drawn from over them)", 100.0 * g)
        });
        text.push_str(&format!("held out: {} of {} passed{gap}\n", h.passed, h.drawn));
    }
    if let Some(tuned) = &verdict.tunables {
        let words = tuned.to_string();
        text.push_str(&format!("tunables: {}\n", if words.is_empty() { "none" } else { &words }));
    }
    if let Some(split) = split(verdict) {
        text.push_str(&format!("{split}\n"));
    }
    for note in &verdict.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let trust = match verdict.trust {
        Trust::Full => "full",
        Trust::Reduced => "reduced",
    };
    let mut facts = vec![match &verdict.gpu {
        Some(gpu) => format!("{} ({})", gpu.name, gpu.arch()),
        None => format!("{}, {} cores", verdict.device.model, verdict.device.cores),
    }];
    if !verdict.scenarios.is_empty() {
        facts.push(format!("trust {trust}"));
        facts.push(format!("seed against itself ±{:.1} %", 100.0 * verdict.aa_spread));
    }
    facts.push(format!("{:.1} s", verdict.seconds));
    text.push_str(&style.faint(&facts.join(" · ")));
    text.push('\n');
    if let Some(next) = &verdict.next {
        text.push_str(&format!("{} {next}\n", style.strong("next:")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_loses_columns_and_never_breaks_a_cell() {
        let cells =
            ["PASS", "few_queries", "2.645×", "[2.142, 3.266]", "85.79 µs", "30.21 µs", "0.49", "audited"];
        let rows = vec![cells.map(str::to_owned).to_vec()];
        // 4 + 11 + 6 + 14 + 8 + 9 + 11 + 7 columns and seven gaps of two.
        assert_eq!(kept(&rows, 84), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept(&rows, 83), [0, 1, 2, 3, 5, 6, 7]);
        assert_eq!(kept(&rows, 70), [0, 1, 2, 3, 6, 7]);
        assert_eq!(kept(&rows, 40), [0, 1, 2, 3, 7]);
    }
}
