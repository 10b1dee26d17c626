//! The story as one table, questions and refusals between the attempts. A long one is told from both ends.

use super::{heading, name, names, paragraph, row, said, table};
use crate::defences::in_words;
use crate::escape::code;
use crate::model::Report;
use crate::story::{Answer, Attempt, Event, Line, Outcome, Stated};
use crate::words::{self, count, first_lines, interval, lasted};
use kernelseek_core::verdict::Word;
use kernelseek_core::wording::counted_as;
use kernelseek_ledger::entry::Purpose;
use std::collections::BTreeSet;

/// Lines that are told at most.
const TOLD: usize = 240;
/// Bytes that the story takes at most.
const BYTES: usize = 110 << 10;
/// Characters of a text that are shown; `log --row` shows it whole.
const TEXT: usize = 220;
const SHORT: usize = 140;

pub(super) fn render(report: &Report) -> String {
    let mut text = heading("Story");
    if report.story.is_empty() {
        text.push_str(&paragraph("Nothing has happened."));
        return text;
    }
    let mut told = TOLD;
    let mut lines = lines(&report.story, told);
    while lines.len() > BYTES && told > 8 {
        told /= 2;
        lines = self::lines(&report.story, told);
    }
    text.push_str(
        &table(&["row", ">after", "what", ">expected", ">measured", "ratio to the seed", "verdict"])
            .replacen("---|", "---:|", 1),
    );
    text.push_str(&lines);
    text.push('\n');
    text.push_str(&paragraph(
        "*expected* and *measured* are ratios to the incumbent of that moment, as the hypothesis states them; *measured* is \
         empty where a part of the grid was evaluated or something is wrong. A promoted row shows its second, independent \
         measurement. Texts are cut; `kernelseek log --row N` shows a row whole.",
    ));
    let t = &report.tally;
    if t.measured > 0 {
        text.push_str(&paragraph(&format!(
            "Of {}, {} stated a ratio that was measured; {} reached it.",
            if t.hypotheses == 1 {
                "1 hypothesis".to_owned()
            } else {
                format!("{} hypotheses", t.hypotheses)
            },
            t.measured,
            t.reached
        )));
    }
    let q = &report.questions;
    if q.asked + q.silences > 0 {
        text.push_str(&paragraph(&format!(
            "{} asked ({} by a person), {} answered, {} with evidence that holds; {}.",
            count(q.asked, "question"),
            q.person,
            q.answered,
            q.accepted,
            count(q.silences, "silence")
        )));
    }
    text
}

/// The table's rows, at most `told` of them besides one for each gap.
fn lines(story: &[Line], told: usize) -> String {
    let kept = kept(story, told);
    let mut text = String::new();
    let mut left_out: Vec<&Line> = Vec::new();
    for (i, line) in story.iter().enumerate() {
        if kept.contains(&i) {
            text.push_str(&gap(&mut left_out));
            text.push_str(&row(&cells(line)));
        } else {
            left_out.push(line);
        }
    }
    text.push_str(&gap(&mut left_out));
    text
}

/// Which lines are told: the first and the last ones, and between them what changed the campaign's course.
fn kept(story: &[Line], told: usize) -> BTreeSet<usize> {
    if story.len() <= told {
        return (0..story.len()).collect();
    }
    let (first, last) = (told / 4, told / 2);
    let mut kept: BTreeSet<usize> = (0..first).chain(story.len().saturating_sub(last)..story.len()).collect();
    let turns: Vec<usize> = (0..story.len()).filter(|i| is_turn(&story[*i].event)).collect();
    // The newest turns say most.
    for turn in turns.into_iter().rev() {
        if kept.len() >= told {
            break;
        }
        kept.insert(turn);
    }
    kept
}

fn is_turn(event: &Event) -> bool {
    match event {
        Event::Attempt(a) => matches!(a.outcome, Outcome::Promoted { .. } | Outcome::Final),
        Event::Sealed { .. } | Event::Ended { .. } | Event::Imported { .. } => true,
        // The first turn of a run stands for the others.
        Event::AgentStarted { turn, .. } => turn.is_none_or(|t| t == 1),
        _ => false,
    }
}

/// One row for lines that are left out.
fn gap(left_out: &mut Vec<&Line>) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let number = |f: &dyn Fn(&Event) -> bool| left_out.iter().filter(|l| f(&l.event)).count() as u64;
    let attempts = number(&|e| matches!(e, Event::Attempt(_)));
    let promoted =
        number(&|e| matches!(e, Event::Attempt(a) if matches!(a.outcome, Outcome::Promoted { .. })));
    let questions = number(&|e| matches!(e, Event::Question { .. }));
    let stops = number(&|e| matches!(e, Event::Stop { .. }));
    let other = left_out.len() as u64 - attempts - questions - stops;
    let mut parts = Vec::new();
    for (n, what) in [(attempts, "attempt"), (questions, "question"), (stops, "stop"), (other, "other line")]
    {
        if n > 0 {
            parts.push(count(n, what));
        }
    }
    if promoted > 0 {
        parts.push(format!("{promoted} of the attempts promoted"));
    }
    let ends = (left_out.first().map_or(0, |l| l.row), left_out.last().map_or(0, |l| l.row));
    left_out.clear();
    let what = format!("*rows {} to {} are left out: {}*", ends.0, ends.1, parts.join(", "));
    row(&["…".to_owned(), String::new(), what, String::new(), String::new(), String::new(), String::new()])
}

fn cells(line: &Line) -> Vec<String> {
    let mut cells = vec![line.row.to_string(), lasted(line.since_ms)];
    let [what, expected, measured, ratio, verdict] = match &line.event {
        Event::Attempt(a) => attempt(a),
        Event::Hypothesis { stated: h } => {
            [stated(h), times(h.expect), String::new(), String::new(), "no attempt".to_owned()]
        }
        other => {
            let (what, verdict) = between(other);
            [what, String::new(), String::new(), String::new(), verdict]
        }
    };
    cells.extend([what, expected, measured, ratio, verdict]);
    cells
}

fn times(x: Option<f64>) -> String {
    x.map_or_else(String::new, |x| format!("{x:.3}×"))
}

fn stated(h: &Stated) -> String {
    let layer = h.layer.map_or_else(String::new, |l| format!("{}: ", code(l.as_str())));
    format!("{layer}{}", said(&h.text, TEXT))
}

fn attempt(a: &Attempt) -> [String; 5] {
    let what = match (&a.hypothesis, a.purpose) {
        (Some(h), _) => stated(h),
        (None, Purpose::Final) => "**the supervisor's own evaluation**".to_owned(),
        (None, _) => "no hypothesis".to_owned(),
    };
    let edit = a.edit.filter(|e| e.added + e.deleted > 0);
    let edit = edit.map_or_else(String::new, |e| format!(" (+{} −{} lines)", e.added, e.deleted));
    let expected = times(a.hypothesis.as_ref().and_then(|h| h.expect));
    let ratio = match &a.outcome {
        Outcome::Promoted { geomean, .. } => interval(geomean),
        _ => a.geomean.as_ref().map_or_else(String::new, interval),
    };
    [format!("{what}{edit}"), expected, times(a.measured), ratio, verdict(a)]
}

fn verdict(a: &Attempt) -> String {
    let mut head = format!("**{}**", a.word);
    let mut kind = Vec::new();
    if a.tier != "default" {
        kind.push(said(&a.tier, 20));
    }
    if a.mode != kernelseek_campaign::MODE {
        kind.push(format!("{} caches", said(&a.mode, 20)));
    }
    if !a.whole_grid && a.counts.scenarios > 0 {
        kind.push(count(a.counts.scenarios as u64, "scenario"));
    }
    if a.stale {
        kind.push("now STALE".to_owned());
    }
    if !kind.is_empty() {
        head.push_str(&format!(" ({})", kind.join(", ")));
    }
    let mut parts = vec![head];
    parts.extend(wrong(a));
    match &a.outcome {
        Outcome::Promoted { row, .. } => parts.push(format!("**promoted** (row {row})")),
        Outcome::NotPromoted { why, fallen } => {
            let fallen = if fallen.is_empty() { String::new() } else { format!(": {}", names(fallen, 6)) };
            parts.push(format!("not promoted: {}{fallen}", said(why, SHORT)));
        }
        // What is wrong says why already.
        Outcome::NoContender { .. } if !matches!(a.word, Word::Pass | Word::Unresolved) => {}
        Outcome::NoContender { why } => parts.push(said(why, SHORT)),
        Outcome::Unsettled => parts.push("its contest is not settled".to_owned()),
        Outcome::Final => {}
    }
    parts.join("; ")
}

/// What failed: the defences in words, and where.
fn wrong(a: &Attempt) -> Option<String> {
    if matches!(a.word, Word::Pass | Word::Unresolved) {
        return None;
    }
    let shown: Vec<String> = a
        .defences
        .iter()
        .take(3)
        .map(|id| match in_words(id) {
            Some(words) => format!("{words} ({})", name(id)),
            None => name(id),
        })
        .collect();
    let more = a.defences.len().saturating_sub(3);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let c = &a.counts;
    let many = match (c.failing, c.unproven) {
        (0, 0) => String::new(),
        (f, 0) => format!(" on {f} of {}", c.scenarios),
        (0, u) => format!(" on {u} of {}", c.scenarios),
        (f, u) => format!(" on {f} failing and {u} unproven of {}", c.scenarios),
    };
    let named = if a.failing.is_empty() { String::new() } else { format!(": {}", names(&a.failing, 4)) };
    let text = format!("{}{more}{many}{named}", shown.join(", "));
    (!text.is_empty()).then_some(text)
}

/// What stands between attempts: what happened, and what came of it.
fn between(event: &Event) -> (String, String) {
    let plain = |what: String| (what, String::new());
    match event {
        Event::Question { point, reason, entry, question, answers } => {
            let at = match (point, entry) {
                (Some(point), _) => format!("at *{point}* ({})", said(reason, SHORT)),
                (None, Some(_)) => format!("({})", said(reason, SHORT)),
                (None, None) => "by a person".to_owned(),
            };
            (format!("**question** {at}: {}", said(question, TEXT)), answered(answers))
        }
        Event::Stop { allowed, rule, reason, words } => {
            let word = if *allowed { "**stop allowed**" } else { "**stop refused**" };
            let words = if words.trim().is_empty() {
                String::new()
            } else {
                format!("; it said: {}", said(words, SHORT))
            };
            let why = first_lines(reason);
            let why = if why.is_empty() { String::new() } else { format!(": {}", said(&why, TEXT)) };
            plain(format!("{word} ({}){why}{words}", code(rule)))
        }
        Event::Abandoned { purpose, why } => {
            let what = match purpose {
                Some(Purpose::Confirm | Purpose::Remeasure) => "the second measurement",
                Some(Purpose::Final) => "the supervisor's own evaluation",
                Some(Purpose::Attempt) | None => "an evaluation",
            };
            (format!("{what} ended without a verdict: {}", said(why, TEXT)), "none".to_owned())
        }
        Event::Sealed { seal, changed, because, stale } => {
            let short = name(&seal.chars().take(12).collect::<String>());
            if changed.is_empty() {
                return plain(format!("**sealed**, {short}"));
            }
            let stale = if *stale { "results before are STALE" } else { "results stay" };
            let because =
                if because.is_empty() { String::new() } else { format!(", because {}", said(because, TEXT)) };
            (format!("**sealed again**, {short}: {} changed{because}", names(changed, 8)), stale.to_owned())
        }
        Event::AgentStarted { agent, turn, command, layers, fenced } => {
            let fence = if *fenced { "fenced" } else { "not wholly fenced" };
            let layers = if layers.is_empty() {
                String::new()
            } else {
                format!(" ({})", said(&words::layers(layers).join(", "), TEXT))
            };
            let command: String = command.join(" ");
            let turn = turn.map_or_else(String::new, |t| format!(", turn {t}"));
            let who = agent.as_ref().map_or_else(String::new, |a| format!(" of {}", name(a)));
            plain(format!(
                "**agent starts**{turn}{who}, {fence}{layers}: {}",
                code(&crate::escape::cut(&command, SHORT))
            ))
        }
        Event::AgentLeft { ended, killed } => {
            let killed = match killed {
                0 => String::new(),
                n => format!(", {} of it killed", counted_as(*n, "process", "processes")),
            };
            plain(format!("**agent has left** ({}){killed}", said(ended, SHORT)))
        }
        Event::Refused { request, why } => {
            plain(format!("**refused**: {}: {}", said(request, SHORT), said(why, TEXT)))
        }
        Event::Imported { head } => {
            plain(format!("**imported** up to {}", name(&head.chars().take(12).collect::<String>())))
        }
        Event::Moved { because } => plain(format!("goes on in another folder ({})", said(because, SHORT))),
        Event::Ended { met, reason } => {
            let met = if *met { "goal met" } else { "goal unmet" };
            (format!("**the campaign ends**: {}", said(reason, TEXT)), met.to_owned())
        }
        Event::Attempt(_) | Event::Hypothesis { .. } => plain(String::new()),
    }
}

fn answered(answers: &[Answer]) -> String {
    let best = answers.iter().find(|a| a.accepted == Some(true)).or_else(|| answers.last());
    let Some(best) = best else { return "not answered".to_owned() };
    let evidence = match best.accepted {
        Some(true) => "the evidence holds".to_owned(),
        Some(false) if best.why.is_empty() => "not accepted".to_owned(),
        Some(false) => format!("not accepted ({})", said(&best.why, SHORT)),
        None => "no evidence to check".to_owned(),
    };
    format!("answered (row {}), {evidence}: {}", best.row, said(&best.text, SHORT))
}
