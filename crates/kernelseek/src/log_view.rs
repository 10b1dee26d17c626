//! One row of the ledger as one line, or a few where words need them.

use crate::status_view::ago;
use crate::style::Style;
use crate::wrap::wrap;
use kernelseek_core::verdict::Word;
use kernelseek_ledger::entry::{Evaluated, Led, QuestionFrom};
use kernelseek_ledger::{Entry, Row};
use kernelseek_report::words;

/// Columns before the text.
const MARGIN: usize = 24;

/// Renders a row. `now_ms` is milliseconds since 1970.
pub(crate) fn line(row: &Row, now_ms: i64, style: Style, width: usize) -> String {
    let (mark, text) = match row.entry() {
        Ok(entry) => told(&entry, style),
        Err(_) => (style.bad("?"), format!("a `{}` that cannot be read", row.kind)),
    };
    let head = format!("{:>5}  {:>11}", row.seq, ago(now_ms - row.at_ms));
    let mut lines = wrap(&text, width.saturating_sub(MARGIN).max(30)).into_iter();
    let mut out = format!("{}  {mark} {}\n", style.faint(&head), lines.next().unwrap_or_default());
    for more in lines {
        out.push_str(&format!("{}{more}\n", " ".repeat(MARGIN - 2)));
    }
    out
}

fn evaluated(e: &Evaluated, style: Style) -> (String, String) {
    let (mark, word) = match e.word {
        Word::Pass => (style.good("●"), style.good("PASS")),
        Word::Fail => (style.bad("●"), style.bad("FAIL")),
        other => (style.doubtful("●"), style.doubtful(other.as_str())),
    };
    let purpose = match words::purpose(e.purpose) {
        "" => String::new(),
        purpose => format!("{purpose}, "),
    };
    let mut text = format!("{word} {}  {purpose}{}", style.strong(&words::ratio(e.geomean.as_ref())), e.tier);
    let hash = &e.candidate_hash[..e.candidate_hash.len().min(10)];
    text.push_str(&format!("  {}", style.faint(&format!("{} {hash} {:.1} s", e.candidate, e.seconds))));
    if let Some(edit) = e.edit.filter(|d| d.added + d.deleted > 0) {
        text.push_str(&style.faint(&format!(" +{} −{}", edit.added, edit.deleted)));
    }
    if !e.tunables.is_empty() {
        text.push_str(&style.faint(&format!(" {}", e.tunables)));
    }
    let c = e.counts;
    let mut parts = Vec::new();
    for (n, what) in [
        (c.failing, "fail"),
        (c.unproven, "unproven"),
        (c.unresolved, "unresolved"),
        (c.fallbacks, "fallback"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    if !parts.is_empty() {
        text.push_str(&format!("\nof {} scenarios: {}", c.scenarios, parts.join(", ")));
        if !e.failing.is_empty() {
            let more = if c.failing > 4 { ", …" } else { "" };
            let some: Vec<&str> = e.failing.iter().take(4).map(String::as_str).collect();
            text.push_str(&format!(" ({}{more})", some.join(", ")));
        }
    }
    if e.counts.scenarios == 0 && !e.defences.is_empty() {
        text.push_str(&format!("\n{}", e.defences.join(", ")));
    }
    (mark, text)
}

fn told(entry: &Entry, style: Style) -> (String, String) {
    let faint = |mark: &str, text: String| (style.faint(mark), text);
    match entry {
        Entry::Created(c) => faint("·", format!("campaign {} begins (kernelseek {})", c.campaign, c.tool)),
        Entry::Sealed(s) => {
            let short = &s.seal[..s.seal.len().min(12)];
            if s.changed.is_empty() {
                (style.strong("◆"), format!("sealed, {short}"))
            } else {
                let text =
                    format!("sealed again, {short}: {} changed\nbecause {}", s.changed.join(", "), s.because);
                (style.doubtful("◆"), text)
            }
        }
        Entry::Workspace(w) => faint("·", format!("{} is a workspace ({})", w.path.display(), w.because)),
        Entry::EvaluationStarted(s) => {
            faint("○", style.faint(&format!("{} evaluation of {} begins", s.tier, s.candidate)))
        }
        Entry::Evaluated(e) => evaluated(e, style),
        Entry::Abandoned(a) => {
            (style.bad("✗"), format!("the evaluation of row {} has no verdict: {}", a.started, a.why))
        }
        Entry::Promoted(p) => (
            style.good("▲"),
            format!(
                "{} {} confirmed by row {}",
                style.good("promoted"),
                words::interval(&p.geomean),
                p.evaluated
            ),
        ),
        Entry::NotPromoted(n) => {
            let names =
                if n.fallen.is_empty() { String::new() } else { format!(": {}", n.fallen.join(", ")) };
            (style.doubtful("▽"), format!("not promoted: {}{names}", n.why))
        }
        Entry::Asked(a) => {
            let point = a.point.map_or("between decision points", |p| p.words());
            match &a.from {
                QuestionFrom::Nobody => faint(
                    "?",
                    style.faint(&format!(
                        "silence at {point}: {} (probability {:.2})",
                        a.reason, a.probability
                    )),
                ),
                QuestionFrom::Person { .. } => {
                    (style.strong("?"), format!("a person asks: {}", style.strong(&a.question)))
                }
                QuestionFrom::Bank { entry, .. } => (
                    style.strong("?"),
                    format!(
                        "{}\n{}",
                        style.strong(&a.question),
                        style.faint(&format!(
                            "{point}: {} ({entry}, probability {:.2})",
                            a.reason, a.probability
                        ))
                    ),
                ),
            }
        }
        Entry::PersonAsked(p) => (style.strong("?"), format!("a person will ask: {}", p.question)),
        Entry::Hypothesis(h) => {
            let layer = h.layer.map_or_else(String::new, |l| format!("[{l}] "));
            let expect = h.expect.map_or_else(String::new, |x| format!(" (expects {x:.3}×)"));
            (style.strong("→"), format!("{layer}{}{expect}", h.text))
        }
        Entry::Answered(a) => {
            let mark = match a.accepted {
                Some(true) => style.good("✓"),
                Some(false) => style.doubtful("?"),
                None => style.strong("✓"),
            };
            let why = if a.why.is_empty() { String::new() } else { format!("\nnot accepted: {}", a.why) };
            (mark, format!("answers row {}: {}{why}", a.question, a.text))
        }
        Entry::StopAttempted(s) if s.allowed => {
            (style.good("■"), format!("stop allowed ({}): {}", s.rule, words::first_lines(&s.reason)))
        }
        Entry::StopAttempted(s) => {
            (style.bad("■"), format!("stop refused ({}): {}", s.rule, words::first_lines(&s.reason)))
        }
        Entry::Led(Led::Started { command, layers, fenced, .. }) => {
            let fence = if *fenced { style.good("fenced") } else { style.bad("not fenced") };
            (
                style.strong("»"),
                format!("agent starts, {fence}: {}\n{}", command.join(" "), style.faint(&layers.join(", "))),
            )
        }
        Entry::Led(Led::Left { ended, killed, .. }) => {
            let left =
                if *killed == 0 { String::new() } else { format!(", {killed} processes of it were killed") };
            (style.strong("«"), format!("agent has left ({ended}){left}"))
        }
        Entry::Led(Led::Refused { request, why }) => {
            (style.bad("✗"), format!("{request} was refused: {why}"))
        }
        Entry::Pruned(p) => {
            faint("·", format!("dropped {} old artefacts ({} bytes)", p.artefacts.len(), p.bytes))
        }
        Entry::ImportedFrom(i) => faint("·", format!("imported up to {}", &i.head[..i.head.len().min(12)])),
        Entry::Ended(e) => {
            let mark = if e.met { style.good("■") } else { style.doubtful("■") };
            (mark, format!("the campaign ends: {}", e.reason))
        }
        Entry::Unknown => faint("?", "a row of a newer version".to_owned()),
    }
}
