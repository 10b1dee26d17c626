//! What an attempt means for its campaign: promotion, goal, question.

use crate::goal_view;
use crate::style::Style;
use crate::wrap::hanging;
use kernelseek_supervisor::Attempt;
use serde_json::{Value, json};

/// Clauses that are shown when unmet.
const MOST: usize = 6;

/// Renders what follows a verdict.
pub(crate) fn render(attempt: &Attempt, style: Style, width: usize) -> String {
    let mut text = String::new();
    for note in &attempt.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str(&format!(
        "\n{} ",
        style.faint(&format!("campaign {} · row {} ·", attempt.campaign, attempt.row))
    ));
    match &attempt.promotion {
        Some(said) if attempt.promoted => text.push_str(&format!("{}\n", style.good(said))),
        Some(said) => text.push_str(&format!("{}\n", style.doubtful(said))),
        None => text.push_str(&format!("{}\n", style.faint("the incumbent stays"))),
    }
    let goal = &attempt.goal;
    let unmet: Vec<_> = goal.unmet().collect();
    if goal.met {
        text.push_str(&format!("goal: {}\n", style.good("met by this evaluation")));
    } else if unmet.is_empty() {
        text.push_str(&format!(
            "goal: every clause holds; {}\n",
            goal.blockers.iter().map(|b| b.next.as_str()).next().unwrap_or_default()
        ));
    } else {
        text.push_str(&format!("goal: {} of {} clauses unmet\n", unmet.len(), goal.clauses.len()));
        let told = goal.told_once().into_iter().filter(|(clause, _)| !clause.met);
        for (clause, misses) in told.take(MOST) {
            text.push_str(&format!("  {} {}\n", style.bad("✗"), clause.clause));
            if let Some(miss) = misses.first() {
                text.push_str(&hanging("      ", &style.faint(&miss.to_string()), width));
            }
        }
    }
    if let Some(ended) = &attempt.ended {
        text.push_str(&format!("{} {ended}\n", style.doubtful("the campaign ends:")));
    }
    for question in &attempt.questions {
        text.push('\n');
        text.push_str(&goal_view::question(question, style, width));
    }
    text
}

/// The verdict's JSON with what it means for the campaign under `campaign`.
pub(crate) fn json(attempt: &Attempt) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(&attempt.evaluation.verdict)?;
    if let Value::Object(map) = &mut value {
        map.insert(
            "campaign".to_owned(),
            json!({
                "id": attempt.campaign,
                "row": attempt.row,
                "promoted": attempt.promoted,
                "promotion": attempt.promotion,
                "goal": attempt.goal,
                "questions": attempt.questions,
                "ended": attempt.ended,
                "notes": attempt.notes,
            }),
        );
    }
    Ok(value)
}
