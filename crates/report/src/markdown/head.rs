//! The headline: met or not, by what, and what a reader needs to find it again.

use super::{name, paragraph, row, said, table};
use crate::escape::{code, inline};
use crate::model::{Chosen, Report, Subject};
use crate::words::{count, date, interval, lasted};
use kernelseek_core::verdict::Trust;
use kernelseek_ledger::entry::Purpose;

/// Characters of a reason.
const REASON: usize = 400;

pub(super) fn render(report: &Report) -> String {
    let state = match report.state.word.as_str() {
        "MET" => "goal met",
        "OVER" => "over, goal unmet",
        "UNMET" => "goal unmet",
        _ => "goal open",
    };
    let mut text = format!("# Campaign {}: {state}\n\n", name(&report.identity.name));
    text.push_str(&paragraph(&sentence(report)));
    if let Some(note) = now(report) {
        text.push_str(&paragraph(&note));
    }
    text.push_str(&facts(report));
    text.push('\n');
    text
}

/// The evaluation in a few words.
fn by(s: &Subject) -> String {
    let what = match s.purpose {
        Purpose::Final => "the supervisor's own full evaluation, made after the agent had left".to_owned(),
        Purpose::Confirm => {
            format!("the second, independent measurement of a candidate, {} tier", inline(&s.tier))
        }
        _ => format!("a {} evaluation", inline(&s.tier)),
    };
    let led = if s.led { "led" } else { "attached" };
    let trust = match s.trust {
        Trust::Full => "full",
        Trust::Reduced => "reduced",
    };
    format!("row {}, {what} ({led}, trust {trust})", s.row)
}

fn sentence(report: &Report) -> String {
    let Some(s) = &report.subject else {
        return "Nothing was evaluated under this seal yet, so there is nothing to show.".to_owned();
    };
    let ratio = match &s.geomean {
        Some(r) => {
            let of = if s.unreadable.is_none() {
                format!("{} of {} scenarios", s.with_ratio, s.counts.scenarios)
            } else {
                count(s.counts.scenarios as u64, "scenario")
            };
            format!(
                "**{}**, seed time over candidate time, geometric mean over {of} ({} of each side, {})",
                interval(r),
                count(r.instances as u64, "instance"),
                count(r.pairs as u64, "pair")
            )
        }
        None => "no ratio".to_owned(),
    };
    let by = by(s);
    match s.chosen {
        Chosen::Ended | Chosen::Current if s.meets => format!("The goal is met by {by}: {ratio}."),
        Chosen::Ended => format!("The campaign ended with its goal met by {by}: {ratio}."),
        Chosen::Earlier => {
            format!("The goal was met by {by}: {ratio}. The sources in the workspace have changed since.")
        }
        Chosen::Incumbent => {
            format!(
                "The best candidate is the incumbent. This report shows its last full evaluation, {by}: {ratio}."
            )
        }
        Chosen::Confirmation => format!(
            "The best candidate is the incumbent. This report shows the measurement that it was promoted by, {by}: {ratio}."
        ),
        Chosen::Current | Chosen::WholeGrid => format!(
            "Nothing was promoted: the incumbent is the seed. This report shows the last evaluation of the whole grid, \
             {by}: **{}**, {ratio}.",
            s.word
        ),
        Chosen::Last => format!(
            "Nothing was promoted: the incumbent is the seed. No evaluation covers the whole grid; this report shows the \
             last one, {by}: **{}**, {ratio}.",
            s.word
        ),
    }
}

/// What `kernelseek goal` says at the moment of the report, where it says something else than the sentence.
fn now(report: &Report) -> Option<String> {
    let state = &report.state;
    if let Some(ended) = &state.ended {
        return (!state.met).then(|| format!("The campaign has ended: {}.", said(ended, REASON)));
    }
    if state.met {
        return None;
    }
    let first = state.reason.lines().next().unwrap_or_default().trim_end_matches('.');
    Some(format!("`kernelseek goal` says now ({}): {}.", code(&state.rule), said(first, REASON)))
}

fn facts(report: &Report) -> String {
    let id = &report.identity;
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut say = |what: &'static str, text: String| {
        if !text.is_empty() {
            lines.push((what, text));
        }
    };
    if let Some(s) = &report.subject {
        let setting = &s.setting;
        say("shown", format!("row {}, {}, {} caches", s.row, date(s.at_ms), inline(&s.mode)));
        if !setting.problem.is_empty() {
            let set =
                if setting.set.is_empty() { String::new() } else { format!(", set {}", name(&setting.set)) };
            say("problem", format!("{}{set}", name(&setting.problem)));
        }
        if !setting.device.model.is_empty() {
            let kernel = &setting.device.kernel;
            let kernel = if kernel.is_empty() { String::new() } else { format!(", kernel {}", name(kernel)) };
            say(
                "machine",
                format!(
                    "{}, {}{kernel}",
                    said(&setting.device.model, 120),
                    count(setting.device.cores as u64, "core")
                ),
            );
        }
        say("compiler", said(&setting.compiler, 160));
    }
    if report.subject.as_ref().is_none_or(|s| s.setting.device.model.is_empty()) {
        say("sealed for", said(&id.sealed_for.join(", "), 240));
    }
    say("seed", report.subject.as_ref().map(|s| name_whole(&s.seed_hash)).unwrap_or_default());
    say("candidate", report.subject.as_ref().map(|s| name_whole(&s.candidate_hash)).unwrap_or_default());
    say("campaign", format!("{}, begun {}", name_whole(&id.campaign), date(id.began_ms)));
    say(
        "seal",
        format!("{}, row {}, {}", name_whole(&id.seal), id.seal_row, count(id.scenarios as u64, "scenario")),
    );
    say("ledger head", format!("{}, row {}, {}", name_whole(&id.head), id.rows, date(id.last_ms)));
    let t = &report.tally;
    say(
        "so far",
        format!(
            "{} and {} under this seal, {} of any kind, {} full; {}; {}",
            count(t.attempts, "attempt"),
            count(t.promotions, "promotion"),
            count(t.evaluations, "evaluation"),
            t.full,
            lasted(id.last_ms.saturating_sub(id.began_ms)),
            count(id.rows, "row")
        ),
    );
    let began =
        if id.tool.is_empty() { String::new() } else { format!(", campaign begun by {}", name(&id.tool)) };
    say("kernelseek", format!("report by {}{began}", name(&report.tool)));
    let mut text = table(&["what", ""]);
    for (what, value) in lines {
        text.push_str(&row(&[what.to_owned(), value]));
    }
    text
}

/// A hash or an id, whole: half of one proves nothing.
fn name_whole(text: &str) -> String {
    code(&crate::escape::cut(text, 160))
}
