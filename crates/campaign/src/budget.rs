//! What a campaign has spent.

use crate::board::Board;
use kernelseek_core::campaign_file::Budget;
use serde::{Deserialize, Serialize};

/// What was spent since the first seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Evaluations that the agent or a person asked for.
    pub evaluations: u64,
    /// Of these, `--full` ones.
    pub full_evaluations: u64,
    /// Milliseconds since the first seal.
    pub time_ms: i64,
}

impl Spent {
    /// What `board` shows at `now_ms`.
    #[must_use]
    pub fn of(board: &Board, now_ms: i64) -> Self {
        use kernelseek_ledger::entry::Purpose;
        let attempts = || board.evaluations.iter().filter(|e| e.facts.purpose == Purpose::Attempt);
        let start = board.seals.first().map_or(now_ms, |s| s.at_ms);
        Self {
            evaluations: attempts().count() as u64,
            full_evaluations: attempts().filter(|e| e.facts.tier == "full").count() as u64,
            // The clock may have gone back.
            time_ms: (now_ms - start).max(0),
        }
    }

    /// The limit that is reached, in words.
    #[must_use]
    pub fn over(&self, budget: &Budget) -> Option<String> {
        if let Some(limit) = budget.evaluations.filter(|l| self.evaluations >= *l) {
            return Some(spent(limit, "evaluation"));
        }
        if let Some(limit) = budget.full_evaluations.filter(|l| self.full_evaluations >= *l) {
            return Some(spent(limit, "full evaluation"));
        }
        let limit = budget.time.filter(|l| u128::from(self.time_ms.unsigned_abs()) >= l.as_millis())?;
        Some(format!("{:.1} hours have passed", limit.as_secs_f64() / 3600.0))
    }
}

fn spent(limit: u64, what: &str) -> String {
    if limit == 1 { format!("the one {what} is spent") } else { format!("{limit} {what}s are spent") }
}
