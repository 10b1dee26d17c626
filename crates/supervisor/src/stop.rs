//! The stop decision with its I/O: read, decide, write that a stop was attempted, and ask.

use crate::asking::Question;
use crate::error::SupervisorError;
use crate::files::plain;
use crate::site::Site;
use crate::supervised::{Campaign, Openness, now_ms};
use kernelseek_campaign::{Situation, StopDecision, StopRule};
use kernelseek_ledger::entry::StopAttempted;
use kernelseek_ledger::{Batch, Entry, EvaluationLock};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Longest last words that are kept, in characters.
const LAST_WORDS: usize = 2_000;

/// The decision and, where one was asked, the question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The decision.
    #[serde(flatten)]
    pub decision: StopDecision,
    /// Campaign id, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
}

impl Campaign {
    /// Decides, writing nothing.
    ///
    /// # Errors
    /// When nothing is sealed.
    pub fn decide(&self) -> Result<StopDecision, SupervisorError> {
        let changes = self.changes()?;
        let running = EvaluationLock::holder(&self.state_dir);
        // The lock is the device's: only an evaluation of this campaign holds its agent back.
        let running = running.filter(|_| !self.board.unfinished.is_empty());
        let hash_of = |path: &str| self.hash_of(path);
        let situation = Situation { changes: &changes, running: running.as_ref(), hash_of: &hash_of };
        self.with_scene(|scene| scene.stop(&situation))
    }

    /// Decides, writes that a stop was attempted, and asks if it is a decision point.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub fn stop(&mut self, words: &str) -> Result<Stop, SupervisorError> {
        let decision = self.decide()?;
        let entry = StopAttempted {
            allowed: decision.allow,
            reason: decision.reason.clone(),
            rule: decision.rule.as_str().to_owned(),
            words: plain(words, LAST_WORDS),
        };
        self.append(Batch::of(Entry::StopAttempted(entry)), now_ms())?;
        let mut question = None;
        if !decision.allow
            && let Some(occasion) = self.with_scene(|scene| scene.occasion())?
        {
            question = self.ask(&occasion)?;
        }
        Ok(Stop { decision, campaign: Some(self.id().to_owned()), question })
    }

    /// The whole decision for an agent that works in `folder`. Never fails: whatever goes wrong blocks and says why,
    /// except that a folder without a campaign holds nobody back.
    #[must_use]
    pub fn stop_in(folder: &Path, state_dir: &Path, words: &str) -> Stop {
        let bare = |decision| Stop { decision, campaign: None, question: None };
        let error = |e: &dyn std::error::Error| {
            let why = kernelseek_evaluator::fault::chain(e);
            bare(StopDecision::new(StopRule::Error, format!("whether the goal is met cannot be told: {why}")))
        };
        let site = match Site::find(folder) {
            Ok(Some(site)) => site,
            Ok(None) => {
                // A campaign is not left by taking its file away.
                if let Some(gone) = Site::gone(folder, state_dir) {
                    let what =
                        format!("{} belongs to a campaign, and its campaign.toml is gone", gone.display());
                    let reason = format!("whether the goal is met cannot be told: {what}; put it back");
                    return bare(StopDecision::new(StopRule::Error, reason));
                }
                return bare(StopDecision::new(StopRule::NoCampaign, "this folder belongs to no campaign"));
            }
            Err(e) => return error(&e),
        };
        match Self::open(&site, state_dir, Openness::Writing).and_then(|mut c| c.stop(words)) {
            Ok(stop) => stop,
            Err(SupervisorError::NotSealed(_)) => {
                bare(StopDecision::new(StopRule::NotSealed, "nothing is sealed yet: run `kernelseek seal`"))
            }
            // A ledger that can be read but not written still says whether the goal is met.
            Err(written) => match Self::open(&site, state_dir, Openness::Reading).and_then(|c| c.decide()) {
                Ok(mut decision) => {
                    let why = kernelseek_evaluator::fault::chain(&written);
                    decision.reason = format!(
                        "{}\n(this attempt to stop could not be written down: {why})",
                        decision.reason
                    );
                    bare(decision)
                }
                Err(_) => error(&written),
            },
        }
    }
}
