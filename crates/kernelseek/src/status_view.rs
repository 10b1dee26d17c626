//! Where a campaign stands, on one screen.

use crate::goal_view;
use crate::style::Style;
use crate::table;
use crate::wrap::hanging;
use kernelseek_core::verdict::Word;
use kernelseek_report::words;
use kernelseek_supervisor::{Standing, Status};

/// Ratios that the line of the course shows.
const COURSE: usize = 60;

/// Renders the status. `now_ms` is milliseconds since 1970.
pub(crate) fn render(s: &Status, now_ms: i64, style: Style, width: usize) -> String {
    let mut text = String::new();
    let seal = &s.seal.1[..s.seal.1.len().min(12)];
    text.push_str(&format!(
        "{}  {}\n",
        style.strong(&s.campaign),
        style.faint(&format!(
            "seal {seal} · {} · {}, {}",
            table::count(s.scenarios as u64, "scenario"),
            table::count(s.rows, "row"),
            table::bytes(s.bytes as f64)
        ))
    ));
    for change in &s.changes {
        text.push_str(&format!("  {} changed since the seal: {change}\n", style.bad("✗")));
    }
    let field = |name: &str, value: &str| {
        hanging(&format!("  {} ", style.faint(&format!("{name:<10}"))), value, width)
    };
    let incumbent = match &s.incumbent {
        None => "the seed, 1.000×".to_owned(),
        Some(i) => standing(i, now_ms, style),
    };
    text.push_str(&field("incumbent", &incumbent));
    if let Some(last) = &s.last {
        text.push_str(&field("last", &standing(last, now_ms, style)));
    }
    let room = COURSE.min(width.saturating_sub(34)).max(8);
    if let Some(line) = words::course(&s.course, room) {
        text.push_str(&field("course", &line));
    }
    let (all, since) = s.attempts;
    text.push_str(&field(
        "attempts",
        &format!("{all}, {since} since the last promotion; {}", table::count(s.promotions, "promotion")),
    ));
    if !s.budget.is_empty() {
        text.push_str(&field(
            "budget",
            &format!(
                "{} ({} full) in {:.1} h, of {}",
                table::count(s.spent.evaluations, "evaluation"),
                s.spent.full_evaluations,
                s.spent.time_ms as f64 / 3.6e6,
                s.budget.join(", ")
            ),
        ));
    }
    let (asked, accepted, silent) = s.questions;
    if asked + silent > 0 {
        text.push_str(&field(
            "questions",
            &format!("{asked} asked, {accepted} answered with evidence, {silent} silences"),
        ));
    }
    for waiting in &s.waiting {
        text.push_str(&field("waiting", &format!("a person's question: {waiting}")));
    }
    if let Some(running) = &s.running {
        text.push_str(&field(
            "running",
            &format!("{} since {} s (process {})", running.what, running.seconds, running.pid),
        ));
    }
    if let Some(ended) = &s.ended {
        let head = if ended.met { style.good("ended, goal met") } else { style.doubtful("ended") };
        text.push_str(&field("end", &format!("{head}: {}", ended.reason)));
    }
    text.push('\n');
    text.push_str(&goal_view::decision(&s.stop, style, width));
    if s.stop.judgement.is_none() {
        for warning in &s.warnings {
            text.push_str(&format!("  {} {warning}\n", style.doubtful("!")));
        }
    }
    if let Some(question) = &s.open_question {
        text.push('\n');
        text.push_str(&goal_view::question(question, style, width));
    } else if s.hypothesis_due {
        text.push_str(&format!(
            "{} state what you expect with `kernelseek hypothesis`\n",
            style.strong("next:")
        ));
    }
    text
}

fn standing(s: &Standing, now_ms: i64, style: Style) -> String {
    let word = match s.word {
        Word::Pass => style.good("PASS"),
        Word::Fail => style.bad("FAIL"),
        other => style.doubtful(other.as_str()),
    };
    let ratio = words::ratio(s.geomean.as_ref());
    let sources = if s.current { "" } else { " · sources have changed since" };
    let hash = &s.candidate_hash[..s.candidate_hash.len().min(10)];
    let tuned = if s.tunables.is_empty() { String::new() } else { format!(" · {}", s.tunables) };
    format!(
        "{ratio}  {word} {}  {}",
        s.tier,
        style.faint(&format!("{hash}{tuned} · row {} · {}{sources}", s.row, ago(now_ms - s.at_ms)))
    )
}

/// How long ago, in words.
pub(crate) fn ago(ms: i64) -> String {
    match ms / 1000 {
        ..=1 => "now".to_owned(),
        s @ 2..=119 => format!("{s} s ago"),
        s @ 120..=7199 => format!("{} min ago", s / 60),
        s @ 7200..=172_799 => format!("{} h ago", s / 3600),
        s => format!("{} days ago", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_words() {
        for (ms, words) in [
            (-5, "now"),
            (900, "now"),
            (5_000, "5 s ago"),
            (600_000, "10 min ago"),
            (1_000_000_000, "11 days ago"),
        ] {
            assert_eq!(ago(ms), words);
        }
    }
}
