//! The machine: from the ledger's rows to what has to happen next.
//!
//! There is no state beside the ledger. After every row whoever drives the campaign asks [`Scene::next`] again, does
//! what it says, writes what came of it, and asks again until nothing is left to do.

use crate::board::{Board, Evaluation};
use crate::budget::Spent;
use crate::detect::{self, Occasion};
use crate::promotion::{self, Contest};
use kernelseek_core::campaign_file::CampaignFile;
use kernelseek_core::goal::{Grid, Judgement};
use kernelseek_core::verdict::{Digest, Ratio};
use kernelseek_ledger::entry::Purpose;
use std::collections::BTreeMap;

/// Where verdicts are read from.
pub trait Verdicts {
    /// The verdict with this name.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn digest(&self, hash: &str) -> Result<Digest, String>;
}

/// What the driver must do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Evaluate the candidate of row `first` again, independently.
    Confirm {
        /// Row of the evaluation that made it a contender.
        first: u64,
    },
    /// Evaluate it on these scenarios with more pairs and a wider interval.
    Remeasure {
        /// Row of the evaluation that made it a contender.
        first: u64,
        /// Scenarios that seem to have fallen.
        scenarios: Vec<String>,
        /// Times the pairs.
        pairs_factor: usize,
        /// Confidence of each interval.
        confidence: f64,
    },
    /// Write that it is the incumbent now.
    Promote {
        /// Row of the evaluation that made it a contender.
        first: u64,
        /// Row of the confirming evaluation.
        evaluated: u64,
        /// Its candidate hash.
        candidate_hash: String,
        /// Its aggregate.
        geomean: Ratio,
        /// Candidate hash of the incumbent before; empty for the seed.
        before: String,
    },
    /// Write that it is not.
    NotPromote {
        /// Row of the evaluation that made it a contender.
        first: u64,
        /// Why not.
        why: String,
        /// Scenarios that fell.
        fallen: Vec<String>,
    },
    /// Ask, or keep silent, and write which.
    Ask(Occasion),
    /// Write that the campaign ends, its goal unmet.
    End {
        /// Why.
        reason: String,
    },
}

/// Everything that deciding reads.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The rows, folded.
    pub board: &'a Board,
    /// The campaign's file.
    pub file: &'a CampaignFile,
    /// The sealed grid.
    pub grid: &'a Grid,
    /// Where verdicts are read from.
    pub verdicts: &'a dyn Verdicts,
    /// The time, milliseconds since 1970.
    pub now_ms: i64,
}

/// Verdicts that steering compares, read once.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Of the last attempt under the seal.
    pub last: Option<Digest>,
    /// Of the incumbent.
    pub incumbent: Option<Digest>,
    /// Of the incumbent before the last attempt, which it is compared with.
    pub before: Option<Digest>,
}

impl<'a> Scene<'a> {
    fn digest_of_row(&self, row: u64) -> Option<Digest> {
        let evaluation = self.board.evaluation(row)?;
        self.verdicts.digest(&evaluation.facts.verdict).ok()
    }

    /// The verdict on the incumbent that stood when row `row` was written.
    ///
    /// # Errors
    /// When there was one and its verdict cannot be read, in words.
    fn incumbent_before(&self, row: u64) -> Result<Option<Digest>, String> {
        let era = self.board.era();
        let Some(promotion) = self.board.promotions.iter().rev().find(|p| p.row < row && p.row > era) else {
            return Ok(None);
        };
        let evaluation = self
            .board
            .evaluation(promotion.what.evaluated)
            .ok_or_else(|| format!("row {} is no evaluation", promotion.what.evaluated))?;
        self.verdicts.digest(&evaluation.facts.verdict).map(Some)
    }

    /// The verdicts that steering compares.
    #[must_use]
    pub fn view(&self) -> View {
        let last = self.board.attempts().next_back();
        View {
            last: last.and_then(|e| self.verdicts.digest(&e.facts.verdict).ok()),
            incumbent: self.board.incumbent().and_then(|p| self.digest_of_row(p.what.evaluated)),
            before: last.and_then(|e| self.incumbent_before(e.row).ok().flatten()),
        }
    }

    /// What has to happen next; nothing if the campaign waits for the agent.
    #[must_use]
    pub fn next(&self) -> Option<Action> {
        if self.board.ended.is_some() || self.board.seal().is_none() {
            return None;
        }
        if let Some(action) = self.contest() {
            return Some(action);
        }
        if let Some(occasion) = self.occasion() {
            return Some(Action::Ask(occasion));
        }
        let reason = Spent::of(self.board, self.now_ms).over(&self.file.budget)?;
        // What was spent on meeting the goal is not spent in vain.
        (!detect::goal_met(self)).then_some(Action::End { reason })
    }

    /// What is to be asked now, whatever else has to happen first: a person's question before any other.
    #[must_use]
    pub fn occasion(&self) -> Option<Occasion> {
        if self.board.ended.is_some() || self.board.seal().is_none() {
            return None;
        }
        detect::next(self, &self.view())
    }

    /// Row of the evaluation whose contest for the incumbent's place is not settled, as after a crash between its two
    /// measurements.
    #[must_use]
    pub fn unsettled(&self) -> Option<u64> {
        if self.board.ended.is_some() || self.board.seal().is_none() {
            return None;
        }
        self.contest()?;
        self.board.attempts().next_back().map(|e| e.row)
    }

    /// Every decision point that is reached and was not served since, in order of precedence.
    #[must_use]
    pub fn occasions(&self) -> Vec<Occasion> {
        if self.board.ended.is_some() || self.board.seal().is_none() || !self.file.questions.enabled {
            return Vec::new();
        }
        detect::all(self, &self.view())
    }

    /// The step that the last attempt's contest needs.
    fn contest(&self) -> Option<Action> {
        let first = self.board.attempts().next_back()?;
        let settled = self.board.lost.contains(&first.row)
            || self.board.promotions.iter().any(|p| p.what.first == first.row);
        if settled {
            return None;
        }
        let first_digest = self.verdicts.digest(&first.facts.verdict).ok()?;
        let lost = |why: &str, fallen: Vec<String>| Action::NotPromote {
            first: first.row,
            why: why.to_owned(),
            fallen,
        };
        let incumbent = match self.incumbent_before(first.row) {
            Ok(incumbent) => incumbent,
            // Without its verdict nothing can be said to be better; what would not win anyway needs no row.
            Err(why) => {
                let contender =
                    promotion::contest(first, &first_digest, None, None, None) == Contest::Confirm;
                return contender
                    .then(|| lost(&format!("the incumbent's verdict cannot be read ({why})"), Vec::new()));
            }
        };
        let after = |purpose: Purpose| -> Option<&Evaluation> {
            self.board.current().find(|e| e.row > first.row && e.facts.purpose == purpose)
        };
        let (confirm, again) = (after(Purpose::Confirm), after(Purpose::Remeasure));
        let read = |e: Option<&Evaluation>| e.map(|e| self.verdicts.digest(&e.facts.verdict)).transpose();
        let (confirmed, remeasured) = match (read(confirm), read(again)) {
            (Ok(confirmed), Ok(remeasured)) => (confirmed, remeasured),
            // Measured is measured: what cannot be read is not measured again for ever.
            (Err(why), _) | (_, Err(why)) => {
                return Some(lost(
                    &format!("the verdict of the second measurement cannot be read ({why})"),
                    Vec::new(),
                ));
            }
        };
        let contest = promotion::contest(
            first,
            &first_digest,
            incumbent.as_ref(),
            confirmed.as_ref(),
            remeasured.as_ref(),
        );
        // A measurement that died twice is not tried for ever.
        let died = self
            .board
            .abandoned
            .iter()
            .filter(|(row, s)| *row > first.row && matches!(s.purpose, Purpose::Confirm | Purpose::Remeasure))
            .count();
        match contest {
            Contest::None(_) => None,
            Contest::Confirm | Contest::Remeasure(_) if died >= 2 => {
                Some(lost("the second measurement ended without a verdict, twice", Vec::new()))
            }
            Contest::Confirm => Some(Action::Confirm { first: first.row }),
            Contest::Remeasure(scenarios) => Some(Action::Remeasure {
                first: first.row,
                confidence: 1.0 - promotion::CONFIDENCE / scenarios.len() as f64,
                scenarios,
                pairs_factor: promotion::PAIRS_FACTOR,
            }),
            Contest::Lost { why, fallen } => Some(lost(&why, fallen)),
            Contest::Won(geomean) => Some(Action::Promote {
                first: first.row,
                evaluated: confirm?.row,
                candidate_hash: first.facts.candidate_hash.clone(),
                geomean,
                before: incumbent.map(|d| d.candidate_hash).unwrap_or_default(),
            }),
        }
    }

    /// Judges the goal on an evaluation.
    ///
    /// # Errors
    /// When its verdict cannot be read, in words.
    pub fn judge(&self, evaluation: &Evaluation) -> Result<Judgement, String> {
        let digest = self.verdicts.digest(&evaluation.facts.verdict)?;
        let baselines = BTreeMap::new();
        Ok(self.file.goal.judge(self.grid, &digest.evidence(&baselines)))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use kernelseek_core::verdict::{ScenarioVerdict, Stage, Trust, Word, geomean};
    use kernelseek_ledger::entry::Evaluated;

    pub(crate) fn scenario(id: &str, point: f64) -> ScenarioVerdict {
        serde_json::from_value(serde_json::json!({
            "id": id, "word": "PASS", "passed": "plausible", "findings": [],
            "ratio": {"point": point, "lo": point * 0.98, "hi": point * 1.02, "instances": 3, "pairs": 12},
            "standing": null, "seed_ns": 1000.0, "candidate_ns": 1000.0 / point, "floor_ns": null,
            "worst_error": null, "contents": 9, "referenced": 4, "first_call_ns": null, "prepare_ns": null,
            "fallback": false, "audited": false
        }))
        .unwrap()
    }

    pub(crate) fn digest(candidate: &str, points: &[(&str, f64)]) -> Digest {
        let scenarios: Vec<_> = points.iter().map(|(id, p)| scenario(id, *p)).collect();
        let ratios: Vec<Ratio> = scenarios.iter().filter_map(|s| s.ratio).collect();
        Digest {
            format: 1,
            word: Word::Pass,
            passed: Stage::Plausible,
            problem_hash: "p".into(),
            candidate_hash: candidate.into(),
            seed_hash: "seed".into(),
            tier: "default".into(),
            mode: "cold".into(),
            timed: None,
            trust: Trust::Full,
            findings: Vec::new(),
            geomean: geomean(&ratios),
            scenarios,
            aa_spread: 0.005,
            held_out: None,
        }
    }

    pub(crate) fn evaluation(row: u64, tier: &str, digest: &Digest) -> Evaluation {
        let facts: Evaluated = serde_json::from_value(serde_json::json!({
            "started": row - 1, "purpose": "attempt", "tier": tier, "mode": "cold", "whole_grid": true, "seal": "s",
            "candidate": "k.c", "candidate_hash": digest.candidate_hash, "sources": [], "word": digest.word,
            "passed": digest.passed, "trust": "full", "counts": {"scenarios": 2, "passed": 2, "unresolved": 0,
            "unproven": 0, "failing": 0, "fallbacks": 0}, "geomean": null, "verdict": "v", "seconds": 1.0
        }))
        .unwrap();
        // Not through JSON, which has no NaN.
        let facts = Evaluated { geomean: digest.geomean, ..facts };
        Evaluation { row, at_ms: 0, facts }
    }
}
