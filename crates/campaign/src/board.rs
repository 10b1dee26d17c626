//! Where the campaign stands: everything that steering reads, folded from the rows.

use kernelseek_ledger::entry::{
    Answered, Asked, Ended, Evaluated, Hypothesis, Led, Promoted, Purpose, QuestionFrom, Sealed, Started,
    StopAttempted,
};
use kernelseek_ledger::{Entry, Row};
use std::collections::{BTreeMap, VecDeque};

/// A finished evaluation with its row.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Its row.
    pub row: u64,
    /// When it ended, milliseconds since 1970.
    pub at_ms: i64,
    /// What it found.
    pub facts: Evaluated,
}

/// An evaluation that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Row of its beginning.
    pub row: u64,
    /// When it began.
    pub at_ms: i64,
    /// What it is.
    pub started: Started,
}

/// Something with its row and time.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// Its row.
    pub row: u64,
    /// When it was written, milliseconds since 1970.
    pub at_ms: i64,
    /// What it is.
    pub what: T,
}

/// The state of a campaign.
#[derive(Debug, Clone, Default)]
pub struct Board {
    /// Campaign id.
    pub campaign: String,
    /// Rows read.
    pub rows: u64,
    /// Rows whose entry this version does not understand.
    pub not_understood: u64,
    /// Every seal, the last one in force.
    pub seals: Vec<At<Sealed>>,
    /// Finished evaluations, in order.
    pub evaluations: Vec<Evaluation>,
    /// Evaluations without an end.
    pub unfinished: BTreeMap<u64, Running>,
    /// Rows of evaluations that ended without a verdict, with their beginnings.
    pub abandoned: Vec<(u64, Started)>,
    /// Promotions, in order.
    pub promotions: Vec<At<Promoted>>,
    /// Rows of evaluations whose contest was lost.
    pub lost: Vec<u64>,
    /// Opportunities, silences included.
    pub asks: Vec<At<Asked>>,
    /// A person's questions that were not asked yet.
    pub waiting: VecDeque<(u64, String)>,
    /// Questions that a person asked in all.
    pub person_questions: u64,
    /// Hypotheses.
    pub hypotheses: Vec<At<Hypothesis>>,
    /// Answers.
    pub answers: Vec<At<Answered>>,
    /// Attempts to stop.
    pub stops: Vec<At<StopAttempted>>,
    /// What happened to led agents.
    pub led: Vec<At<Led>>,
    /// The end.
    pub ended: Option<At<Ended>>,
    /// First row's time and last row's.
    pub span_ms: Option<(i64, i64)>,
}

impl Board {
    /// Folds rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut board = Self::default();
        rows.into_iter().for_each(|row| board.apply(row));
        board
    }

    /// Takes one more row.
    pub fn apply(&mut self, row: &Row) {
        self.rows += 1;
        self.span_ms = Some((self.span_ms.map_or(row.at_ms, |(first, _)| first), row.at_ms));
        let (seq, at_ms) = (row.seq, row.at_ms);
        match row.entry() {
            Ok(entry) => self.take(seq, at_ms, entry),
            Err(_) => self.not_understood += 1,
        }
    }

    fn take(&mut self, row: u64, at_ms: i64, entry: Entry) {
        match entry {
            Entry::Created(created) => self.campaign = created.campaign,
            Entry::Sealed(sealed) => {
                self.seals.push(At { row, at_ms, what: sealed });
                // A new seal is a new beginning, whatever had been reached before.
                self.ended = None;
            }
            Entry::EvaluationStarted(started) => {
                self.unfinished.insert(row, Running { row, at_ms, started });
            }
            Entry::Evaluated(facts) => {
                self.unfinished.remove(&facts.started);
                self.evaluations.push(Evaluation { row, at_ms, facts: *facts });
            }
            Entry::Abandoned(abandoned) => {
                if let Some(running) = self.unfinished.remove(&abandoned.started) {
                    self.abandoned.push((row, running.started));
                }
            }
            Entry::Promoted(promoted) => self.promotions.push(At { row, at_ms, what: promoted }),
            Entry::NotPromoted(not) => self.lost.push(not.first),
            Entry::Asked(asked) => {
                if let QuestionFrom::Person { row } = asked.from {
                    self.waiting.retain(|(waiting, _)| *waiting != row);
                }
                self.asks.push(At { row, at_ms, what: *asked });
            }
            Entry::PersonAsked(asked) => {
                self.person_questions += 1;
                self.waiting.push_back((row, asked.question));
            }
            Entry::Hypothesis(hypothesis) => self.hypotheses.push(At { row, at_ms, what: hypothesis }),
            Entry::Answered(answered) => self.answers.push(At { row, at_ms, what: answered }),
            Entry::StopAttempted(stop) => self.stops.push(At { row, at_ms, what: stop }),
            Entry::Led(led) => self.led.push(At { row, at_ms, what: led }),
            Entry::Ended(ended) => self.ended = Some(At { row, at_ms, what: ended }),
            Entry::Workspace(_) | Entry::Pruned(_) | Entry::ImportedFrom(_) => {}
            Entry::Unknown => self.not_understood += 1,
        }
    }

    /// The seal in force.
    #[must_use]
    pub fn seal(&self) -> Option<&At<Sealed>> {
        self.seals.last()
    }

    /// Hash of the seal in force; empty without one.
    #[must_use]
    pub fn seal_hash(&self) -> &str {
        self.seal().map_or("", |s| &s.what.seal)
    }

    /// Row of the first of the last seals that rest on the same things: where what counts now begins. A seal that only
    /// changes a budget opens no new era.
    #[must_use]
    pub fn era(&self) -> u64 {
        let hash = self.seal_hash();
        self.seals.iter().rev().take_while(|s| s.what.seal == hash).last().map_or(0, |s| s.row)
    }

    /// Evaluations under the seal in force, whoever asked for them.
    pub fn current(&self) -> impl DoubleEndedIterator<Item = &Evaluation> {
        let seal = self.seal_hash();
        self.evaluations.iter().filter(move |e| e.facts.seal == seal)
    }

    /// What the agent or a person evaluated under the seal in force.
    pub fn attempts(&self) -> impl DoubleEndedIterator<Item = &Evaluation> {
        self.current().filter(|e| e.facts.purpose == Purpose::Attempt)
    }

    /// The evaluation in a row.
    #[must_use]
    pub fn evaluation(&self, row: u64) -> Option<&Evaluation> {
        self.evaluations.binary_search_by_key(&row, |e| e.row).ok().map(|i| &self.evaluations[i])
    }

    /// The promotion that made the incumbent, if it was made under the seal in force.
    #[must_use]
    pub fn incumbent(&self) -> Option<&At<Promoted>> {
        self.seal()?;
        self.promotions.last().filter(|p| p.row > self.era())
    }

    /// The row after which things count as since the last promotion: the promotion, or the seal.
    #[must_use]
    pub fn last_step(&self) -> u64 {
        self.incumbent().map_or_else(|| self.era(), |p| p.row)
    }

    /// When that was.
    #[must_use]
    pub fn last_step_ms(&self) -> i64 {
        self.incumbent()
            .map(|p| p.at_ms)
            .or_else(|| self.seals.iter().find(|s| s.row == self.era()).map(|s| s.at_ms))
            .unwrap_or_default()
    }

    /// The question that waits for an answer: the last one that was asked, if nothing was answered to it.
    #[must_use]
    pub fn open_question(&self) -> Option<&At<Asked>> {
        let asked = self.asks.iter().rev().find(|a| !a.what.is_silence())?;
        let answered = self.answers.iter().any(|a| a.what.question == asked.row);
        (!answered).then_some(asked)
    }

    /// Whether a hypothesis was stated after the last question.
    #[must_use]
    pub fn hypothesis_due(&self) -> bool {
        let asked = self.asks.iter().rev().find(|a| !a.what.is_silence());
        asked.is_some_and(|a| !self.hypotheses.iter().any(|h| h.row > a.row))
    }
}
