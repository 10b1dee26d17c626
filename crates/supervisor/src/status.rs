//! Where the campaign stands, for people and programs.

use crate::asking::Question;
use crate::error::SupervisorError;
use crate::supervised::{Campaign, now_ms};
use kernelseek_campaign::{Spent, StopDecision, speaks_for};
use kernelseek_core::campaign_file::Budget;
use kernelseek_core::verdict::{Ratio, Word};
use kernelseek_ledger::Busy;
use kernelseek_ledger::EvaluationLock;
use kernelseek_ledger::entry::Ended;
use kernelseek_ledger::seal::Change;
use serde::{Deserialize, Serialize};

/// The incumbent or the last attempt in a few words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Row of its evaluation.
    pub row: u64,
    /// When it ended, milliseconds since 1970.
    pub at_ms: i64,
    /// Tier.
    pub tier: String,
    /// Word.
    pub word: Word,
    /// Candidate hash.
    pub candidate_hash: String,
    /// Geometric mean.
    pub geomean: Option<Ratio>,
    /// Values of its tunables and its flags; empty without a kernel file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tunables: String,
    /// Whether the sources on the disk are still these.
    pub current: bool,
}

/// Where the campaign stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Campaign id.
    pub campaign: String,
    /// Its name.
    pub name: String,
    /// The ledger's file.
    pub ledger: String,
    /// Rows in it.
    pub rows: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Row and hash of the seal in force.
    pub seal: (u64, String),
    /// What differs from it now.
    pub changes: Vec<Change>,
    /// Scenarios in the sealed grid.
    pub scenarios: usize,
    /// Evaluation that is running.
    pub running: Option<RunningNow>,
    /// The incumbent; none while it is the seed.
    pub incumbent: Option<Standing>,
    /// The last attempt.
    pub last: Option<Standing>,
    /// Attempts under the seal, and since the last promotion.
    pub attempts: (u64, u64),
    /// Promotions under the seal.
    pub promotions: u64,
    /// Aggregates of the whole-grid attempts under the seal in order, for a line of ratios; `None` where there was none.
    pub course: Vec<Option<f64>>,
    /// What was spent.
    pub spent: Spent,
    /// What may be spent, in words.
    pub budget: Vec<String>,
    /// Questions asked, answered with accepted evidence, and silences.
    pub questions: (u64, u64, u64),
    /// The question that waits for an answer.
    pub open_question: Option<Question>,
    /// A question was asked and no hypothesis was stated since.
    pub hypothesis_due: bool,
    /// A person's questions that wait.
    pub waiting: Vec<String>,
    /// May the agent stop now?
    pub stop: StopDecision,
    /// The end.
    pub ended: Option<Ended>,
    /// Warnings about the goal.
    pub warnings: Vec<String>,
    /// By how much the clock is behind the last row, milliseconds.
    pub clock_behind_ms: i64,
    /// Rows that a newer version wrote and this one does not understand.
    pub not_understood: u64,
}

/// An evaluation that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningNow {
    /// Process.
    pub pid: u32,
    /// What it evaluates.
    pub what: String,
    /// For how long, in seconds.
    pub seconds: i64,
}

fn running(busy: &Busy) -> RunningNow {
    RunningNow { pid: busy.pid, what: busy.what.clone(), seconds: (now_ms() - busy.since_ms).max(0) / 1000 }
}

fn budget(b: &Budget) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(b.evaluations.map(|n| format!("{n} evaluations")));
    words.extend(b.full_evaluations.map(|n| format!("{n} full evaluations")));
    words.extend(b.time.map(|t| format!("{:.1} h", t.as_secs_f64() / 3600.0)));
    words
}

impl Campaign {
    fn standing(&self, row: u64) -> Option<Standing> {
        let e = self.board.evaluation(row)?;
        Some(Standing {
            row: e.row,
            at_ms: e.at_ms,
            tier: e.facts.tier.clone(),
            word: e.facts.word,
            candidate_hash: e.facts.candidate_hash.clone(),
            geomean: e.facts.geomean,
            current: speaks_for(&e.facts, &mut |path| self.hash_of(path)),
            tunables: e.facts.tunables.clone(),
        })
    }

    /// Where the campaign stands.
    ///
    /// # Errors
    /// When nothing is sealed.
    pub fn status(&self) -> Result<Status, SupervisorError> {
        let sealed = self.in_force()?;
        let board = &self.board;
        let asked = board.asks.iter().filter(|a| !a.what.is_silence()).count() as u64;
        let accepted = board.answers.iter().filter(|a| a.what.accepted == Some(true)).count() as u64;
        Ok(Status {
            campaign: self.id().to_owned(),
            name: sealed.file.name.clone(),
            ledger: self.ledger.path().display().to_string(),
            rows: board.rows,
            bytes: self.ledger.size(),
            seal: (sealed.row, sealed.seal.hash()),
            changes: self.changes()?,
            scenarios: sealed.grid.scenarios.len(),
            running: EvaluationLock::holder(&self.state_dir).as_ref().map(running),
            incumbent: board.incumbent().and_then(|p| self.standing(p.what.evaluated)),
            last: board.attempts().next_back().and_then(|e| self.standing(e.row)),
            attempts: (
                board.attempts().count() as u64,
                board.attempts().filter(|e| e.row > board.last_step()).count() as u64,
            ),
            promotions: board.promotions.iter().filter(|p| p.row > board.era()).count() as u64,
            course: board
                .attempts()
                .filter(|e| e.facts.whole_grid)
                .map(|e| {
                    let correct = matches!(e.facts.word, Word::Pass | Word::Unresolved);
                    e.facts.geomean.filter(|_| correct).map(|g| g.point)
                })
                .collect(),
            spent: Spent::of(board, now_ms()),
            budget: budget(&sealed.file.budget),
            questions: (asked, accepted, board.asks.len() as u64 - asked),
            open_question: self.open_question(),
            hypothesis_due: board.hypothesis_due(),
            waiting: board.waiting.iter().map(|(_, q)| q.clone()).collect(),
            stop: self.decide()?,
            ended: board.ended.as_ref().map(|e| e.what.clone()),
            warnings: sealed.file.goal.warnings(),
            clock_behind_ms: self.clock_behind_ms,
            not_understood: board.not_understood,
        })
    }
}
