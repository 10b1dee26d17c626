//! Every scenario from seed to final, worst first; what is wrong; the held-out ones as counts.

use super::{heading, item, name, names, paragraph, row, said, table};
use crate::defences::in_words;
use crate::escape::code;
use crate::model::{Report, Subject};
use crate::words::{count, interval, over_bound, time};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{ScenarioVerdict, Standing};

/// Scenarios that are listed.
const MOST: usize = 250;
/// Defences that are spelled out.
const EXPLAINED: usize = 8;

pub(super) fn render(report: &Report) -> String {
    let Some(s) = &report.subject else { return String::new() };
    let mut text = heading("Scenarios, from the seed to row ROW").replace("ROW", &s.row.to_string());
    if let Some(why) = &s.unreadable {
        text.push_str(&paragraph(&format!("The verdict cannot be read: {}.", said(why, 300))));
        return text;
    }
    if s.scenarios.is_empty() {
        text.push_str(&paragraph("No scenario was measured."));
    } else {
        text.push_str(&table(&[
            "scenario",
            "word",
            ">ratio",
            "interval",
            ">seed",
            ">final",
            ">error/bound",
            "notes",
        ]));
        for scenario in s.scenarios.iter().take(MOST) {
            text.push_str(&row(&cells(scenario)));
        }
        text.push('\n');
        let hidden = s.scenarios.len().saturating_sub(MOST);
        if hidden > 0 {
            text.push_str(&paragraph(&format!(
                "{} that do better are not listed.",
                count(hidden as u64, "scenario")
            )));
        }
    }
    text.push_str(&findings(s));
    text.push_str(&held_out(report, s));
    text
}

fn cells(s: &ScenarioVerdict) -> Vec<String> {
    let clock = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
    let mut notes = Vec::new();
    for (said, note) in [(s.fallback, "fallback"), (s.audited, "audited")] {
        if said {
            notes.push(note.to_owned());
        }
    }
    match s.standing {
        Some(Standing::Slower) => notes.push("slower".to_owned()),
        Some(Standing::Tie) => notes.push("tie".to_owned()),
        Some(Standing::Unresolved) => notes.push("unresolved".to_owned()),
        Some(Standing::Faster) | None => {}
    }
    if let Some(finding) = s.findings.iter().find(|f| f.severity >= Severity::Unproven) {
        notes.push(name(&finding.defence));
    }
    if s.findings.iter().any(|f| f.defence.starts_with("sandbox.denied")) {
        notes.push("denied attempts".to_owned());
    }
    vec![
        name(&s.id),
        s.word.as_str().to_owned(),
        s.ratio.map_or_else(|| "-".to_owned(), |r| format!("{:.3}×", r.point)),
        s.ratio.map_or_else(|| "-".to_owned(), |r| format!("[{:.3}, {:.3}]", r.lo, r.hi)),
        clock(s.seed_ns),
        clock(s.candidate_ns),
        s.worst_error.as_ref().map_or_else(|| "-".to_owned(), |w| over_bound(w.ratio)),
        notes.join(", "),
    ]
}

/// What was found, each defence once, with the scenarios that it is about.
fn findings(s: &Subject) -> String {
    let mut told: Vec<(&Finding, Vec<String>)> = Vec::new();
    let own = s.findings.iter().map(|f| (None, f));
    let theirs = s.scenarios.iter().flat_map(|v| v.findings.iter().map(move |f| (Some(&v.id), f)));
    for (scenario, finding) in own.chain(theirs).filter(|(_, f)| f.severity >= Severity::Warning) {
        let known = told.iter_mut().find(|(f, _)| f.defence == finding.defence);
        match (known, scenario) {
            (Some((_, scenarios)), Some(id)) if !scenarios.contains(id) => scenarios.push(id.clone()),
            (Some(_), _) => {}
            (None, id) => told.push((finding, id.into_iter().cloned().collect())),
        }
    }
    let mut text = String::new();
    told.sort_by_key(|(f, _)| std::cmp::Reverse(f.severity));
    for (finding, scenarios) in told.iter().take(EXPLAINED) {
        let mark = if finding.severity == Severity::Warning { "!" } else { "✗" };
        let on = if scenarios.is_empty() { String::new() } else { format!(" on {}", names(scenarios, 6)) };
        let next = finding.next.as_ref().map_or_else(String::new, |n| format!("; next: {}", said(n, 200)));
        text.push_str(&item(&format!(
            "{mark} {} ({}){on}{next}",
            said(&finding.message, 300),
            code(&finding.defence)
        )));
    }
    if told.len() > EXPLAINED {
        text.push_str(&item(&format!("and {} more kinds of finding", told.len() - EXPLAINED)));
    }
    if text.is_empty() { text } else { format!("{text}\n") }
}

fn held_out(report: &Report, s: &Subject) -> String {
    let full = match report.tally.full {
        0 => "No full evaluation was made under this seal.".to_owned(),
        1 => "One full evaluation was made under this seal; it drew its own held-out scenarios.".to_owned(),
        n => format!("{n} full evaluations were made under this seal; each drew its own held-out scenarios."),
    };
    let Some(h) = &s.held_out else { return paragraph(&full) };
    let gap = h.gap.map_or_else(String::new, |g| format!(", gap {:+.1} %", 100.0 * g));
    let mean = h.geomean.as_ref().map_or_else(String::new, |g| format!(", mean {}", interval(g)));
    let mut text = format!("Held out: {} of {} passed{gap}{mean}. {full}", h.passed, h.drawn);
    for (defence, n) in h.misses.iter().take(EXPLAINED) {
        let words = in_words(defence).unwrap_or("misses");
        text.push_str(&format!(" {n} × {words} ({}).", code(defence)));
    }
    paragraph(&text)
}
