//! A verdict as a person reads it: one headline, the scenarios worst first, what missed and why, one next step.

use crate::style::Style;
use crate::table;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{Ratio, ScenarioVerdict, Standing, Trust, Word};
use kernelseek_evaluator::evaluate::Verdict;
use kernelseek_evaluator::settings::{Mode, Tier};

/// Scenarios that are listed; the rest is counted.
const MOST_ROWS: usize = 40;
/// Findings of one defence about the candidate as a whole that are spelled out.
const MOST_OF_A_KIND: usize = 2;
/// Scenarios whose findings are spelled out.
const MOST_EXPLAINED: usize = 6;

/// Renders a verdict.
pub(crate) fn render(verdict: &Verdict, style: Style, width: usize) -> String {
    let mut text = headline(verdict, style);
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

fn headline(verdict: &Verdict, style: Style) -> String {
    let tier = match verdict.tier {
        Tier::Quick => "quick",
        Tier::Default => "default",
        Tier::Full => "full",
    };
    let mode = match verdict.mode {
        Mode::Cold => "cold",
        Mode::Warm => "warm",
    };
    let subject = format!("{} against the seed of {}", verdict.candidate, verdict.problem);
    let ratio = verdict.geomean.map_or_else(String::new, |r| format!("  {}", style.strong(&interval(&r))));
    format!("{}{ratio}  {subject} ({tier}, {mode} caches)\n", word(verdict.word, style))
}

/// `2.84× [2.80, 2.88]`.
fn interval(r: &Ratio) -> String {
    format!("{:.3}× [{:.3}, {:.3}]", r.point, r.lo, r.hi)
}

fn rows(verdict: &Verdict, style: Style, width: usize) -> String {
    let mut table = table::plain(
        width.saturating_sub(2),
        &["", "scenario", "ratio", "interval", "seed", "candidate", "error/bound", ""],
        &[false, false, true, false, true, true, true, false],
    );
    for s in verdict.scenarios.iter().take(MOST_ROWS) {
        table.add_row(row(s));
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
            Standing::Unresolved => notes.push("unresolved".to_owned()),
        }
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
        s.worst_error.as_ref().map_or_else(|| "-".to_owned(), |w| number(w.ratio)),
        notes.join(", "),
    ]
}

fn number(x: f64) -> String {
    if !x.is_finite() {
        "∞".to_owned()
    } else if x >= 1000.0 {
        format!("{x:.1e}")
    } else {
        format!("{x:.2}")
    }
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

fn abbreviate(ids: &[&str]) -> String {
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
        text.push_str(&format!("{} scenarios: {}\n", verdict.scenarios.len(), parts.join(", ")));
    }
    if let Some(h) = &verdict.held_out {
        let gap = h.gap.map_or_else(String::new, |g| format!(", gap {:+.1} %", 100.0 * g));
        text.push_str(&format!("held out: {} of {} passed{gap}\n", h.passed, h.drawn));
    }
    if let Some(tuned) = &verdict.tunables {
        let words = tuned.to_string();
        text.push_str(&format!("tunables: {}\n", if words.is_empty() { "none" } else { &words }));
    }
    for note in &verdict.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let trust = match verdict.trust {
        Trust::Full => "full",
        Trust::Reduced => "reduced",
    };
    let mut facts = vec![format!("{}, {} cores", verdict.device.model, verdict.device.cores)];
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
