//! The outer loop: what follows after an agent has left. Every hook of an agent can fail open; this cannot.

use crate::stop::{StopDecision, StopRule};
use kernelseek_core::goal::MissReason;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Turns in a row without an evaluation, a hypothesis or an answer, after which nobody is at work.
pub const BARREN: u32 = 3;

/// How far a run has come, and how far it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Turns taken.
    pub turns: u32,
    /// Turns that may be taken.
    pub most_turns: u32,
    /// Time since the run began.
    pub elapsed: Duration,
    /// Time that it may take.
    pub limit: Option<Duration>,
    /// Turns in a row, up to the last one, in which nothing was done.
    pub barren: u32,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy)]
pub struct TurnEnd<'a> {
    /// A person interrupted it.
    pub interrupted: bool,
    /// The agent said that it has nothing more to do.
    pub finished: Option<&'a str>,
    /// May it stop?
    pub decision: &'a StopDecision,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The evaluation that counts.
    Evaluate,
    /// Another turn, with what is missing.
    Resume,
    /// The run ends.
    End(End),
}

/// Why a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum End {
    /// The goal is met.
    Met,
    /// A person interrupted it.
    Interrupted,
    /// All turns were taken.
    Turns {
        /// How many.
        turns: u32,
    },
    /// Its time is over.
    Time {
        /// Seconds that it had.
        seconds: u64,
    },
    /// The agent did nothing, several times in a row.
    Barren {
        /// How often.
        turns: u32,
    },
    /// The agent has nothing more to do.
    Finished {
        /// In its words.
        words: String,
    },
    /// The campaign is over.
    Over {
        /// Why.
        reason: String,
    },
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Met => f.write_str("the goal is met"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Turns { turns: 1 } => f.write_str("the one turn is taken"),
            Self::Turns { turns } => write!(f, "all {turns} turns are taken"),
            Self::Time { seconds } => write!(f, "its {:.1} minutes are over", *seconds as f64 / 60.0),
            Self::Barren { turns } => {
                write!(f, "the agent evaluated nothing, stated nothing and answered nothing in {turns} turns")
            }
            Self::Finished { words } => write!(f, "the agent is done: {words}"),
            Self::Over { reason } => f.write_str(reason),
        }
    }
}

/// Whether only the evaluation that counts is missing: a full one, which measures what was held out too, may meet the
/// goal.
#[must_use]
pub fn may_be_met(decision: &StopDecision) -> bool {
    if decision.met || (decision.rule == StopRule::NotEvaluated && decision.judgement.is_some()) {
        return true;
    }
    let Some(judgement) = decision.judgement.as_ref().filter(|_| decision.rule == StopRule::Unmet) else {
        return false;
    };
    // A miss of the candidate as a whole that was not evaluated is the held-out gap of a smaller evaluation.
    let mut misses = judgement.unmet().flat_map(|clause| &clause.misses).peekable();
    misses.peek().is_some()
        && misses.all(|miss| miss.scenario.is_empty() && miss.reason == MissReason::NotEvaluated)
        && judgement.blockers.len() <= 1
}

/// Whether it is worth measuring once more what the agent has left when the run ends: nothing failed, and a more
/// thorough evaluation may tell what the last one could not.
#[must_use]
pub fn undecided(decision: &StopDecision) -> bool {
    let Some(judgement) = &decision.judgement else { return false };
    let mut misses = judgement.unmet().flat_map(|clause| &clause.misses).peekable();
    misses.peek().is_some() && misses.all(|miss| miss.reason == MissReason::Unresolved)
}

/// What follows after a turn.
#[must_use]
pub fn after_turn(course: &Course, end: &TurnEnd<'_>) -> Next {
    if end.interrupted {
        return Next::End(End::Interrupted);
    }
    if may_be_met(end.decision) {
        return Next::Evaluate;
    }
    match ends(course, end) {
        Some(_) if undecided(end.decision) => Next::Evaluate,
        Some(why) => Next::End(why),
        None => Next::Resume,
    }
}

/// What follows after the evaluation that counts.
#[must_use]
pub fn after_evaluation(course: &Course, end: &TurnEnd<'_>, met: bool) -> Next {
    if met {
        return Next::End(End::Met);
    }
    ends(course, end).map_or(Next::Resume, Next::End)
}

fn ends(course: &Course, end: &TurnEnd<'_>) -> Option<End> {
    let decision = end.decision;
    if matches!(decision.rule, StopRule::Ended | StopRule::Budget | StopRule::NoCampaign) {
        return Some(End::Over { reason: decision.reason.lines().next().unwrap_or_default().to_owned() });
    }
    if let Some(words) = end.finished {
        return Some(End::Finished { words: words.to_owned() });
    }
    if course.barren >= BARREN {
        return Some(End::Barren { turns: course.barren });
    }
    if course.turns >= course.most_turns {
        return Some(End::Turns { turns: course.turns });
    }
    let limit = course.limit.filter(|limit| course.elapsed >= *limit)?;
    Some(End::Time { seconds: limit.as_secs() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::goal::Judgement;

    fn judged(misses: &[(&str, &str)]) -> Judgement {
        let misses: Vec<_> = misses
            .iter()
            .map(|(scenario, reason)| {
                serde_json::json!({"scenario": scenario, "message": "m", "reason": reason})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "met": false, "blockers": [], "warnings": [],
            "clauses": [{"clause": "every speedup >= 1", "met": misses.is_empty(), "satisfied": 0, "of": 1, "misses": misses}]
        }))
        .unwrap()
    }

    fn decision(rule: StopRule, judgement: Option<Judgement>) -> StopDecision {
        StopDecision { judgement, ..StopDecision::new(rule, "reason") }
    }

    const COURSE: Course =
        Course { turns: 1, most_turns: 3, elapsed: Duration::from_secs(10), limit: None, barren: 0 };

    #[test]
    fn what_follows_after_a_turn() {
        let open = decision(StopRule::Unmet, Some(judged(&[("s", "below")])));
        let unclear = decision(StopRule::Unmet, Some(judged(&[("s", "unresolved"), ("t", "unresolved")])));
        let holds = decision(StopRule::NotEvaluated, Some(judged(&[])));
        let held_out = decision(StopRule::Unmet, Some(judged(&[("", "not_evaluated")])));
        let left_out =
            decision(StopRule::Unmet, Some(judged(&[("", "not_evaluated"), ("s", "not_evaluated")])));
        let unevaluated = decision(StopRule::NotEvaluated, None);
        let met = decision(StopRule::Met, None);
        let budget = decision(StopRule::Budget, Some(judged(&[("s", "below")])));
        let minute = Some(Duration::from_secs(60));
        let end = |decision| TurnEnd { interrupted: false, finished: None, decision };
        let cases: Vec<(Course, TurnEnd<'_>, Next)> = vec![
            (COURSE, end(&open), Next::Resume),
            (COURSE, end(&unevaluated), Next::Resume),
            (COURSE, end(&unclear), Next::Resume),
            (COURSE, end(&holds), Next::Evaluate),
            (COURSE, end(&held_out), Next::Evaluate),
            (COURSE, end(&left_out), Next::Resume),
            // What the agent's own full evaluation says is measured again.
            (COURSE, end(&met), Next::Evaluate),
            (COURSE, TurnEnd { interrupted: true, ..end(&met) }, Next::End(End::Interrupted)),
            (Course { turns: 3, ..COURSE }, end(&open), Next::End(End::Turns { turns: 3 })),
            (Course { turns: 3, ..COURSE }, end(&holds), Next::Evaluate),
            (Course { turns: 3, ..COURSE }, end(&unclear), Next::Evaluate),
            (Course { barren: 3, ..COURSE }, end(&open), Next::End(End::Barren { turns: 3 })),
            (Course { barren: 2, ..COURSE }, end(&open), Next::Resume),
            (
                Course { elapsed: Duration::from_secs(61), limit: minute, ..COURSE },
                end(&open),
                Next::End(End::Time { seconds: 60 }),
            ),
            (Course { limit: minute, ..COURSE }, end(&open), Next::Resume),
            (
                COURSE,
                TurnEnd { finished: Some("over"), ..end(&open) },
                Next::End(End::Finished { words: "over".into() }),
            ),
            (COURSE, TurnEnd { finished: Some("over"), ..end(&holds) }, Next::Evaluate),
            (COURSE, end(&budget), Next::End(End::Over { reason: "reason".into() })),
        ];
        for (i, (course, end, next)) in cases.into_iter().enumerate() {
            assert_eq!(after_turn(&course, &end), next, "case {i}");
        }
    }

    #[test]
    fn what_follows_after_the_evaluation_that_counts() {
        let holds = decision(StopRule::NotEvaluated, Some(judged(&[])));
        let end = TurnEnd { interrupted: false, finished: None, decision: &holds };
        assert_eq!(after_evaluation(&COURSE, &end, true), Next::End(End::Met));
        assert_eq!(after_evaluation(&COURSE, &end, false), Next::Resume);
        let last = Course { turns: 3, ..COURSE };
        assert_eq!(after_evaluation(&last, &end, false), Next::End(End::Turns { turns: 3 }));
        let over = TurnEnd { finished: Some("w"), ..end };
        assert_eq!(after_evaluation(&COURSE, &over, false), Next::End(End::Finished { words: "w".into() }));
    }
}
