//! Goals, decisions and questions as a person reads them.

use crate::style::Style;
use crate::wrap::hanging;
use kernelseek_campaign::{StopDecision, StopRule};
use kernelseek_core::goal::{ClauseJudgement, Judgement};
use kernelseek_report::words;
use kernelseek_supervisor::Question;

/// Misses that a clause lists.
const MOST: usize = 12;

/// A stop decision: a headline, then the goal.
pub(crate) fn decision(decision: &StopDecision, style: Style, width: usize) -> String {
    let word = words::state(decision);
    let head = match decision.rule {
        _ if decision.met => style.good(word),
        StopRule::Unmet => style.bad(word),
        _ => style.doubtful(word),
    };
    match &decision.judgement {
        None => hanging(&format!("{head}  "), &decision.reason, width),
        Some(judgement) => {
            let first = decision.reason.lines().next().unwrap_or_default();
            format!("{}{}", hanging(&format!("{head}  "), first, width), goal(judgement, style, width))
        }
    }
}

/// A judged goal.
pub(crate) fn goal(judgement: &Judgement, style: Style, width: usize) -> String {
    let mut text = String::new();
    for (clause, misses) in judgement.told_once() {
        text.push_str(&line(clause, style));
        if misses.is_empty() && !clause.misses.is_empty() {
            text.push_str("      for the same reason\n");
        }
        for miss in misses.iter().take(MOST) {
            text.push_str(&hanging("      ", &miss.to_string(), width));
        }
        if misses.len() > MOST {
            text.push_str(&format!("      and {} more (--json lists them)\n", misses.len() - MOST));
        }
    }
    for blocker in &judgement.blockers {
        text.push_str(&hanging(&format!("  {} ", style.bad("✗")), &blocker.message, width));
        text.push_str(&hanging(&format!("      {} ", style.strong("next:")), &blocker.next, width));
    }
    for warning in &judgement.warnings {
        text.push_str(&hanging(&format!("  {} ", style.doubtful("!")), warning, width));
    }
    text
}

fn line(clause: &ClauseJudgement, style: Style) -> String {
    let mark = if clause.met { style.good("✓") } else { style.bad("✗") };
    format!("  {mark} {}  {}\n", clause.clause, style.faint(&words::reached(clause)))
}

/// A question, in a frame that an agent and a person both notice.
pub(crate) fn question(question: &Question, style: Style, width: usize) -> String {
    let from = if question.person { "a person asks" } else { "question" };
    let mut text = hanging(
        &format!("{} ", style.strong(&format!("{from}:"))),
        &style.faint(&format!("({}, row {})", question.reason, question.row)),
        width,
    );
    text.push_str(&hanging("  ", &style.strong(&question.question), width));
    for evidence in &question.evidence {
        text.push_str(&hanging(&format!("  {} ", style.faint("counts as an answer:")), evidence, width));
    }
    if !question.fields.is_empty() {
        text.push_str(&hanging(&format!("  {} ", style.faint("as JSON:")), &question.fields, width));
    }
    let next = "answer with `kernelseek answer`, then say what you expect with `kernelseek hypothesis` before you edit";
    text.push_str(&hanging("  ", &style.faint(next), width));
    text
}
