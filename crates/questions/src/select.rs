//! Which question is asked: eligibility first, then a draw.

use crate::bank::Bank;
use crate::entry::Entry;
use crate::formula::Formula;
use crate::names::Group;
use crate::signals::Signals;
use kernelseek_core::decision::DecisionPoint;
use kernelseek_core::expression::Evaluator;
use kernelseek_core::value::Value;
use serde::{Deserialize, Serialize};

/// A question that was asked earlier in the campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Id of the entry.
    pub entry: String,
    /// Its group.
    pub group: Group,
    /// Evaluations that had finished.
    pub at_evaluation: u64,
    /// Whether nothing was promoted since.
    pub since_promotion: bool,
    /// Whether the answer held the evidence; `None` without an answer.
    pub answered: Option<bool>,
}

/// A decision point at which a question may be asked.
#[derive(Debug, Clone, Copy)]
pub struct Opportunity<'a> {
    /// The point.
    pub point: DecisionPoint,
    /// The signals now.
    pub signals: &'a Signals,
    /// What was asked before, oldest first.
    pub history: &'a [Asked],
    /// Evaluations that have finished.
    pub evaluations: u64,
    /// The campaign's target: `cpu`, `cuda`.
    pub target: &'a str,
    /// Whether another implementation exists.
    pub alternative: bool,
}

/// How often nothing is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Share of silences, from 0 to 1, at points that do not always ask.
    pub silence: f64,
}

/// What is done at an opportunity.
#[derive(Debug, Clone, Copy)]
pub enum Choice<'b> {
    /// This entry is asked.
    Entry(&'b Entry),
    /// Nothing is asked.
    Silence,
}

/// What is done at an opportunity, and what else could have been.
#[derive(Debug, Clone)]
pub struct Selection<'b> {
    /// What is done.
    pub choice: Choice<'b>,
    /// Probability with which it was going to be.
    pub probability: f64,
    /// Probability of silence.
    pub silence: f64,
    /// Every eligible entry with its probability; with `silence` they sum to 1.
    pub eligible: Vec<(String, f64)>,
    /// Every other entry for this point, and why it is not eligible.
    pub excluded: Vec<(String, &'static str)>,
}

/// Chooses what is asked. `draw` is uniform in [0, 1); the same arguments give the same choice.
///
/// A group is drawn uniformly among those with an eligible entry, then an entry of it uniformly. At a plateau, groups
/// not asked since the last promotion come before others, and one whose last answer held no evidence is left alone
/// until then. With nothing eligible, silence has probability 1.
#[must_use]
pub fn select<'b>(bank: &'b Bank, o: &Opportunity<'_>, policy: &Policy, draw: f64) -> Selection<'b> {
    let (eligible, mut excluded) = eligibility(bank, o);
    let eligible = fresh_groups_first(eligible, o, &mut excluded);
    let silence = silence(policy, o.point, eligible.is_empty());

    let mut groups: Vec<(Group, usize)> = Vec::new();
    for entry in &eligible {
        match groups.iter_mut().find(|(group, _)| *group == entry.group) {
            Some((_, count)) => *count += 1,
            None => groups.push((entry.group, 1)),
        }
    }
    let probability = |entry: &Entry| {
        let count = groups.iter().find(|(group, _)| *group == entry.group).map_or(1, |(_, count)| *count);
        (1.0 - silence) / (groups.len().max(1) * count) as f64
    };
    let shares: Vec<(&'b Entry, f64)> = eligible.iter().map(|e| (*e, probability(e))).collect();
    let (choice, probability) = take(&shares, silence, draw);
    Selection {
        choice,
        probability,
        silence,
        eligible: shares.iter().map(|(e, p)| (e.id.clone(), *p)).collect(),
        excluded,
    }
}

fn silence(policy: &Policy, point: DecisionPoint, nothing: bool) -> f64 {
    if nothing {
        1.0
    } else if point.always_asks() || policy.silence.is_nan() {
        0.0
    } else {
        policy.silence.clamp(0.0, 1.0)
    }
}

/// The choice whose interval of [0, 1) holds the draw: silence first, then the entries in the order of the bank.
fn take<'b>(shares: &[(&'b Entry, f64)], silence: f64, draw: f64) -> (Choice<'b>, f64) {
    let draw = if draw.is_nan() { 0.0 } else { draw };
    let mut end = silence;
    if draw < end {
        return (Choice::Silence, silence);
    }
    for (entry, share) in shares {
        end += share;
        if draw < end {
            return (Choice::Entry(entry), *share);
        }
    }
    // Rounding may leave the sum a little below a draw near 1.
    match shares.last() {
        Some((entry, share)) if *share > 0.0 => (Choice::Entry(entry), *share),
        _ => (Choice::Silence, silence),
    }
}

type Excluded = Vec<(String, &'static str)>;

fn eligibility<'b>(bank: &'b Bank, o: &Opportunity<'_>) -> (Vec<&'b Entry>, Excluded) {
    let mut eligible = Vec::new();
    let mut excluded = Vec::new();
    let evaluator = evaluator(o.signals);
    for entry in bank.entries().iter().filter(|e| e.decision_points.contains(&o.point)) {
        match reason(entry, o, evaluator.as_ref()) {
            None => eligible.push(entry),
            Some(why) => excluded.push((entry.id.clone(), why)),
        }
    }
    (eligible, excluded)
}

/// An evaluator that knows the signals.
pub(crate) fn evaluator(signals: &Signals) -> Option<Evaluator> {
    let mut evaluator = Evaluator::new().ok()?;
    for (name, value) in signals.iter() {
        evaluator.set(name, value);
    }
    Some(evaluator)
}

/// Why an entry may not be asked now. What needs no expression comes first: most entries end there.
fn reason(entry: &Entry, o: &Opportunity<'_>, evaluator: Option<&Evaluator>) -> Option<&'static str> {
    if entry.status != crate::names::Status::Active {
        return Some("not active");
    }
    if !entry.applies_to.target(o.target) {
        return Some("for another target");
    }
    if entry.applies_to.needs_alternative && !o.alternative {
        return Some("no other implementation");
    }
    let trigger = &entry.trigger;
    if o.evaluations < trigger.min_observations {
        return Some("too few evaluations");
    }
    let asks = o.history.iter().filter(|a| a.entry == entry.id);
    if asks.clone().count() as u64 >= trigger.max_asks_per_campaign {
        return Some("asked as often as it may be");
    }
    let recent = asks.filter(|a| a.since_promotion).map(|a| a.at_evaluation).max();
    if recent.is_some_and(|at| o.evaluations.saturating_sub(at) < trigger.cooldown_evals) {
        return Some("asked a short while ago");
    }
    let last =
        o.history.iter().rfind(|a| a.group == entry.group && a.since_promotion && a.answered.is_some());
    if o.point == DecisionPoint::Plateau && last.is_some_and(|a| a.answered == Some(false)) {
        return Some("the last answer to its group held no evidence");
    }
    let present = |name: &String| o.signals.get(name).is_some();
    if !trigger.signals.iter().chain(&entry.applies_to.requires_signals).all(present) {
        return Some("a signal is absent");
    }
    let Some(evaluator) = evaluator else { return Some("expressions cannot be evaluated") };
    match holds(&trigger.expr, o.signals, evaluator) {
        Ok(Some(true)) => {}
        Ok(Some(false)) => return Some("its trigger is false"),
        Ok(None) => return Some("a signal is absent"),
        Err(()) => return Some("its trigger cannot be evaluated"),
    }
    for formula in &trigger.suppress_if {
        match holds(formula, o.signals, evaluator) {
            Ok(Some(false) | None) => {}
            Ok(Some(true)) => return Some("suppressed"),
            Err(()) => return Some("a suppression cannot be evaluated"),
        }
    }
    None
}

/// Whether a condition over signals is true; `None` if it reads an absent one.
pub(crate) fn holds(formula: &Formula, signals: &Signals, evaluator: &Evaluator) -> Result<Option<bool>, ()> {
    let expression = formula.expression().map_err(|_| ())?;
    if expression.names().any(|name| signals.get(name).is_none()) {
        return Ok(None);
    }
    match evaluator.evaluate(expression) {
        Ok(Value::Bool(b)) => Ok(Some(b)),
        _ => Err(()),
    }
}

/// At a plateau: only groups that nothing was asked from since the last promotion, if there is such an entry.
fn fresh_groups_first<'b>(
    eligible: Vec<&'b Entry>,
    o: &Opportunity<'_>,
    excluded: &mut Excluded,
) -> Vec<&'b Entry> {
    let fresh = |entry: &Entry| !o.history.iter().any(|a| a.group == entry.group && a.since_promotion);
    if o.point != DecisionPoint::Plateau || !eligible.iter().any(|e| fresh(e)) {
        return eligible;
    }
    let (fresh, others): (Vec<_>, Vec<_>) = eligible.into_iter().partition(|e| fresh(e));
    excluded.extend(others.iter().map(|e| (e.id.clone(), "its group was asked since the last promotion")));
    fresh
}

#[cfg(test)]
mod tests;
