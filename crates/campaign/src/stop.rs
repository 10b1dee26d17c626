//! May the agent stop? A cheap read of the ledger: the last verdict on the sources as they are now, judged by the goal.
//!
//! Every doubt blocks. What blocks says the one thing to do next.

use crate::board::Evaluation;
use crate::budget::Spent;
use crate::machine::Scene;
use kernelseek_core::goal::Judgement;
use kernelseek_core::kernel_file;
use kernelseek_core::verdict::Word;
use kernelseek_ledger::Busy;
use kernelseek_ledger::entry::Evaluated;
use kernelseek_ledger::seal::Change;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The mode that a goal is judged in; a column beside `device` stands behind the mode, and is not this either.
pub const MODE: &str = "cold";
/// Scenarios that a reason names.
const NAMED: usize = 5;

/// Which rule decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopRule {
    /// The goal is met by a full evaluation of the sources as they are.
    Met,
    /// The campaign is over.
    Ended,
    /// The budget is spent.
    Budget,
    /// Nothing was sealed yet.
    NotSealed,
    /// Something that results rest on has changed.
    Stale,
    /// An evaluation is running.
    Running,
    /// The sources as they are were not evaluated.
    NotEvaluated,
    /// They were evaluated, and the goal is unmet.
    Unmet,
    /// The ledger or a verdict cannot be read.
    Error,
    /// The folder belongs to no campaign.
    NoCampaign,
}

impl StopRule {
    /// The rule as rows hold it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Ended => "ended",
            Self::Budget => "budget",
            Self::NotSealed => "not_sealed",
            Self::Stale => "stale",
            Self::Running => "running",
            Self::NotEvaluated => "not_evaluated",
            Self::Unmet => "unmet",
            Self::Error => "error",
            Self::NoCampaign => "no_campaign",
        }
    }

    /// Whether it lets the agent go.
    #[must_use]
    pub const fn allows(self) -> bool {
        matches!(self, Self::Met | Self::Ended | Self::Budget | Self::NoCampaign)
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopDecision {
    /// Whether the agent may stop.
    pub allow: bool,
    /// Whether the goal is met.
    #[serde(default)]
    pub met: bool,
    /// Which rule decided.
    pub rule: StopRule,
    /// What the agent is told: what is missing and the one next step.
    pub reason: String,
    /// The goal, judged, where there was something to judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl StopDecision {
    /// A decision without a judgement.
    #[must_use]
    pub fn new(rule: StopRule, reason: impl Into<String>) -> Self {
        let met = rule == StopRule::Met;
        Self { allow: rule.allows(), met, rule, reason: reason.into(), judgement: None }
    }
}

/// What the driver sees outside the ledger.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// Parts of the seal that differ now.
    pub changes: &'a [Change],
    /// Who evaluates now.
    pub running: Option<&'a Busy>,
    /// Hash of a file of the workspace as it is now, by its path there; `None` if it cannot be read.
    pub hash_of: &'a dyn Fn(&str) -> Option<String>,
}

/// Whether an evaluation is of the workspace's files as they are: every source is what it was, and a kernel file that was
/// not there, which a build would read now, is not there.
#[must_use]
pub fn speaks_for(facts: &Evaluated, hash_of: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    let same = facts.sources.iter().all(|s| hash_of(&s.path).as_deref() == Some(s.hash.as_str()));
    let kernel = kernel_file::beside(Path::new(&facts.candidate)).map(|p| p.to_string_lossy().into_owned());
    let kernel = kernel.filter(|k| !facts.sources.iter().any(|s| s.path == *k));
    same && kernel.is_none_or(|k| hash_of(&k).is_none())
}

impl Scene<'_> {
    /// The evaluation under the seal that speaks for the workspace's files as they are: the newest full one, unless a
    /// newer one of any tier failed; without a full one the newest.
    #[must_use]
    pub fn of_current_sources(&self, hash_of: &dyn Fn(&str) -> Option<String>) -> Option<&Evaluation> {
        let mut known: std::collections::BTreeMap<String, Option<String>> = std::collections::BTreeMap::new();
        let mut newest = None;
        for e in self.board.current().rev() {
            let facts = &e.facts;
            if facts.sources.is_empty() {
                continue;
            }
            let mut hash = |path: &str| known.entry(path.to_owned()).or_insert_with(|| hash_of(path)).clone();
            if !speaks_for(facts, &mut hash) {
                continue;
            }
            let failed = !matches!(facts.word, Word::Pass | Word::Unresolved);
            // Ratios of another mode say something else than the campaign's.
            if facts.mode != MODE && !failed {
                continue;
            }
            if failed || (facts.tier == "full" && facts.whole_grid) {
                return Some(e);
            }
            newest = newest.or(Some(e));
        }
        newest
    }

    /// Decides.
    #[must_use]
    pub fn stop(&self, situation: &Situation<'_>) -> StopDecision {
        let over = self.board.ended.as_ref().map(|ended| {
            let reason = format!("the campaign has ended: {}", ended.what.reason);
            StopDecision { met: ended.what.met, ..StopDecision::new(StopRule::Ended, reason) }
        });
        if let Some(over) = over.clone().filter(|o| o.met) {
            return over;
        }
        let decision = self.open_stop(situation);
        if decision.met {
            return decision;
        }
        // An end ends the campaign, but never hides a goal that is met.
        if let Some(over) = over {
            return over;
        }
        if !decision.allow
            && let Some(spent) = Spent::of(self.board, self.now_ms).over(&self.file.budget)
        {
            return StopDecision {
                allow: true,
                rule: StopRule::Budget,
                reason: format!("{spent}; the goal is unmet. {}", decision.reason),
                ..decision
            };
        }
        decision
    }

    /// Decides as if the campaign could not end.
    fn open_stop(&self, situation: &Situation<'_>) -> StopDecision {
        let board = self.board;
        if board.seal().is_none() {
            return StopDecision::new(StopRule::NotSealed, "nothing is sealed yet: run `kernelseek seal`");
        }
        if !situation.changes.is_empty() {
            let what: Vec<String> = situation.changes.iter().take(3).map(ToString::to_string).collect();
            let what = what.join("; ");
            let text = if Change::only_steering(situation.changes) {
                format!(
                    "the campaign's own settings have changed since they were sealed ({what}): undo the change, or have \
                     a person seal them with `kernelseek seal --because …`; results stay as they are"
                )
            } else {
                format!(
                    "what results rest on has changed since it was sealed ({what}): undo the change, or have a person \
                     seal it again with `kernelseek seal --because …`, then evaluate"
                )
            };
            return StopDecision::new(StopRule::Stale, text);
        }
        if let Some(busy) = situation.running {
            return StopDecision::new(
                StopRule::Running,
                format!(
                    "an evaluation of {} is running (process {}): wait for its verdict",
                    busy.what, busy.pid
                ),
            );
        }
        let current = self.of_current_sources(situation.hash_of);
        match current {
            None => {
                let why = match board.unfinished.values().next_back() {
                    Some(r) => format!(
                        "the evaluation of {} that began in row {} ended without a verdict",
                        r.started.candidate, r.row
                    ),
                    None => "the sources as they are now were not evaluated".to_owned(),
                };
                StopDecision::new(StopRule::NotEvaluated, format!("{why}: run `kernelseek eval --full`"))
            }
            // What a later evaluation found is not known, so an earlier one proves nothing.
            Some(evaluation) if board.unreadable.iter().any(|row| *row > evaluation.row) => {
                StopDecision::new(StopRule::Error, "a later evaluation cannot be read: evaluate again")
            }
            Some(evaluation) => match self.judge(evaluation) {
                Err(error) => StopDecision::new(
                    StopRule::Error,
                    format!("the verdict of row {} cannot be read ({error}): evaluate again", evaluation.row),
                ),
                Ok(judgement) if judgement.met => {
                    let mut d = StopDecision::new(
                        StopRule::Met,
                        format!("the goal is met by the full evaluation of row {}", evaluation.row),
                    );
                    d.judgement = Some(judgement);
                    d
                }
                // Nothing is missing but the evaluation that counts: that is no claim of a limit.
                Ok(judgement) if evaluation.facts.tier != "full" && only_tier_missing(&judgement) => {
                    let mut d = StopDecision::new(
                        StopRule::NotEvaluated,
                        format!(
                            "every clause holds in the evaluation of row {}, but only a full one satisfies a goal: run \
                             `kernelseek eval --full`",
                            evaluation.row
                        ),
                    );
                    d.judgement = Some(judgement);
                    d
                }
                Ok(judgement) => {
                    let mut d = StopDecision::new(StopRule::Unmet, unmet(&judgement));
                    d.judgement = Some(judgement);
                    d
                }
            },
        }
    }
}

fn only_tier_missing(judgement: &Judgement) -> bool {
    judgement.clauses.iter().all(|c| c.met) && judgement.blockers.len() == 1
}

/// What is missing, in a few lines that an agent can act on.
#[must_use]
pub fn unmet(judgement: &Judgement) -> String {
    let mut text = String::from("the goal is unmet.");
    for (clause, misses) in judgement.told_once().into_iter().filter(|(clause, _)| !clause.met) {
        text.push_str(&format!("\n- `{}`: {} of {} scenarios", clause.clause, clause.satisfied, clause.of));
        if misses.is_empty() && !clause.misses.is_empty() {
            text.push_str(", for the same reason");
        }
        for miss in misses.iter().take(NAMED) {
            let name =
                if miss.scenario.is_empty() { String::new() } else { format!("`{}`: ", miss.scenario) };
            text.push_str(&format!("\n    {name}{}", miss.message));
        }
        if misses.len() > NAMED {
            text.push_str(&format!("\n    and {} more (`kernelseek goal` lists them)", misses.len() - NAMED));
        }
    }
    for blocker in &judgement.blockers {
        text.push_str(&format!("\n- {}: {}", blocker.message, blocker.next));
    }
    text
}
