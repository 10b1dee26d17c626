//! The last evaluation: full, from stored sources, with fresh secrets, made by the supervisor after the agent has left.

use crate::attempt::Job;
use crate::error::SupervisorError;
use crate::supervised::{Campaign, fresh_secret, now_ms};
use kernelseek_campaign::Evaluation;
use kernelseek_core::goal::Judgement;
use kernelseek_evaluator::event::Sink;
use kernelseek_evaluator::settings::{Effort, Settings, Tier};
use kernelseek_ledger::entry::{Ended, Purpose};
use kernelseek_ledger::{Batch, Busy, Entry};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether the goal is met.
    pub met: bool,
    /// Why it is not, or which row shows that it is.
    pub reason: String,
    /// Row of the evaluation, if one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The goal, judged on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Judgement>,
    /// The verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<kernelseek_evaluator::evaluate::Verdict>,
}

impl Outcome {
    pub(crate) fn unmet(reason: impl Into<String>) -> Self {
        Self { met: false, reason: reason.into(), row: None, goal: None, verdict: None }
    }
}

impl Campaign {
    /// Evaluates, once and for all, what the ledger holds of the sources that are in the workspace now. Nothing is read
    /// from the workspace but to compare hashes.
    ///
    /// # Errors
    /// When there can be no verdict.
    pub fn last_evaluation(
        &mut self,
        base: &Settings,
        sink: &mut dyn Sink,
        waiting: &mut dyn FnMut(&Busy),
    ) -> Result<Outcome, SupervisorError> {
        let _lock = self.take_lock(3600, waiting)?;
        self.recover()?;
        let hash_of = |path: &str| self.hash_of(path);
        let current = self.with_scene(|scene| scene.of_current_sources(&hash_of).map(|e| e.row))?;
        let Some(evaluation) = current.and_then(|row| self.board.evaluation(row)).cloned() else {
            // The incumbent may well meet the goal, but it is not what the agent has left.
            let kept = self.board.incumbent().map_or_else(String::new, |p| {
                format!("; the incumbent's sources are kept, in row {}", p.what.evaluated)
            });
            return Ok(Outcome::unmet(format!("what is in the workspace now was not evaluated{kept}")));
        };
        // What was not built needs no full evaluation to be refused.
        if evaluation.facts.candidate_hash.is_empty() {
            return Ok(Outcome::unmet("the candidate does not build"));
        }
        let place = self.place()?;
        self.last_in(&place.0, &evaluation, base, sink)
    }

    fn last_in(
        &mut self,
        place: &Path,
        evaluation: &Evaluation,
        base: &Settings,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, SupervisorError> {
        let mut settings =
            Settings { tier: Tier::Full, effort: Effort::of(Tier::Full), ..self.settings(base)? };
        settings.calibrate = true;
        settings.only = Vec::new();
        settings.secret = fresh_secret()?;
        let job = Job {
            purpose: Purpose::Final,
            problem: PathBuf::new(),
            candidate: PathBuf::new(),
            root: PathBuf::new(),
            settings,
            led: true,
            broken: false,
        };
        let job = self.kept_job(place, &evaluation.facts.sources, &evaluation.facts.candidate, job)?;
        debug_assert_eq!(job.settings.tier.as_str(), "full");
        let (row, made) = self.run_in(job, sink)?;
        let goal = self.judge_row(row)?;
        let same = made.verdict.candidate_hash == evaluation.facts.candidate_hash;
        let met = goal.met && same;
        let reason = if !same {
            "the stored sources build to another candidate than the one that was evaluated".to_owned()
        } else if met {
            format!("the goal is met by the supervisor's own full evaluation, row {row}")
        } else {
            format!("the supervisor's own full evaluation, row {row}, does not meet the goal")
        };
        if met {
            let ended = Ended { met, reason: reason.clone(), evaluated: Some(row) };
            self.append(Batch::of(Entry::Ended(ended)), now_ms())?;
        }
        Ok(Outcome { met, reason, row: Some(row), goal: Some(goal), verdict: Some(made.verdict) })
    }
}
