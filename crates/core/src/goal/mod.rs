//! Goals: clauses over every scenario, judged from verdicts alone.
//!
//! A clause is one line of `campaign.toml`:
//!
//! ```text
//! every scenario correct
//! every speedup >= 1.0 where n >= 1024
//! at least 90 % speedup >= 1.1
//! geomean speedup >= 1.3 against seed
//! fallback rate <= 0.1
//! constraints hold
//! held-out gap <= 0.05
//! ```
//!
//! Judging is pure. Whatever it cannot see is a miss: a scenario without a verdict, a ratio that is not a number, an
//! interval that does not tell. A goal is never met by absence.

mod blockers;
mod judge;
mod parse;
mod telling;

pub use judge::{Blocker, ClauseJudgement, Evidence, Grid, GridScenario, Judgement, Miss, MissReason};
pub use parse::ClauseError;

use crate::expression::Expression;

/// How many scenarios a clause is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantifier {
    /// Each one.
    Every,
    /// This many.
    AtLeast(usize),
    /// This share, from 0 to 1.
    AtLeastShare(f64),
    /// Their geometric mean.
    Geomean,
}

/// What a clause is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Metric {
    /// The scenario passed the stage `correct` and nothing about it is unproven.
    Correct,
    /// Lower bound of the time of `against` over the candidate's.
    Speedup {
        /// Least value.
        threshold: f64,
        /// `seed`, or the name of a baseline.
        against: String,
    },
    /// Share of scenarios that the candidate declines.
    FallbackRate {
        /// Largest value.
        threshold: f64,
    },
    /// The binary keeps the problem's constraints.
    Constraints,
    /// Visible geomean over held-out geomean, minus 1.
    HeldOutGap {
        /// Largest value.
        threshold: f64,
    },
}

/// One clause.
#[derive(Debug, Clone)]
pub struct Clause {
    /// As it is written, spaces made single.
    pub text: String,
    /// How many scenarios it is about.
    pub quantifier: Quantifier,
    /// What it asks of them.
    pub metric: Metric,
    /// Which scenarios it is about; all without a condition.
    pub condition: Option<Expression>,
    /// Whether a scenario that the fallback runs may satisfy it.
    pub allow_fallback: bool,
}

impl Clause {
    /// Whether the clause looks at an average only.
    #[must_use]
    pub const fn is_aggregate(&self) -> bool {
        matches!(self.quantifier, Quantifier::Geomean)
    }
}

/// A goal: all its clauses, and the trust that it asks for.
#[derive(Debug, Clone)]
pub struct Goal {
    /// The clauses; at least one.
    pub clauses: Vec<Clause>,
    /// Whether a verdict of reduced trust will do.
    pub accept_reduced_trust: bool,
    /// Half-width of an interval above which a missed speedup is unresolved, not below.
    pub margin: f64,
}

impl Goal {
    /// What a person should know before relying on the goal.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let every_correct = self.clauses.iter().any(|c| {
            c.metric == Metric::Correct && c.quantifier == Quantifier::Every && c.condition.is_none()
        });
        if !every_correct {
            warnings
                .push("no clause asks every scenario to be correct: add `every scenario correct`".to_owned());
        }
        let speed = || self.clauses.iter().filter(|c| matches!(c.metric, Metric::Speedup { .. }));
        if speed().next().is_some() && speed().all(Clause::is_aggregate) {
            warnings.push(
                "speed is asked for as an average only, which hides a scenario that became slower: add \
                 `every speedup >= …`"
                    .to_owned(),
            );
        }
        if self.accept_reduced_trust {
            warnings.push(
                "verdicts of reduced trust satisfy this goal: a candidate that tampers with its harness is not \
                 ruled out"
                    .to_owned(),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
