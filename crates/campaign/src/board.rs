//! Where the campaign stands: everything that steering reads, folded from the rows.

use kernelseek_core::decision::DecisionPoint;
use kernelseek_ledger::entry::{
    Answered, Ended, Evaluated, Hypothesis, Led, Promoted, Purpose, QuestionFrom, Sealed, Started,
    StopAttempted,
};
use kernelseek_ledger::{Entry, Row};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};

/// Statements of each kind that are still listened to.
const RECENT: usize = 25;

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

/// An opportunity as steering reads it: an [`Asked`](kernelseek_ledger::entry::Asked) without what was only written
/// down for whoever studies it later (signals, eligible entries, the draw), which is most of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Decision point.
    pub point: Option<DecisionPoint>,
    /// What made it one, in words.
    pub reason: String,
    /// Who the question is from.
    pub from: QuestionFrom,
    /// The question; empty for a silence.
    pub question: String,
    /// What would count as an answer.
    pub evidence: Vec<String>,
    /// Form of the JSON object that an answer hands in.
    pub fields: String,
    /// Finished evaluations at that moment.
    pub evaluations: u64,
}

impl Ask {
    /// Whether nothing was asked.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        self.from == QuestionFrom::Nobody
    }

    fn read(body: &str) -> Option<Self> {
        /// The same fields beside each other, as the row holds them.
        #[derive(Deserialize)]
        struct Flat {
            #[serde(default)]
            point: Option<DecisionPoint>,
            reason: String,
            from: String,
            #[serde(default)]
            entry: Option<String>,
            #[serde(default)]
            version: Option<u64>,
            #[serde(default)]
            group: Option<String>,
            #[serde(default)]
            row: Option<u64>,
            #[serde(default)]
            question: String,
            #[serde(default)]
            evidence: Vec<String>,
            #[serde(default)]
            fields: String,
            evaluations: u64,
        }
        let flat: Flat = serde_json::from_str(body).ok()?;
        let from = match flat.from.as_str() {
            "bank" => QuestionFrom::Bank { entry: flat.entry?, version: flat.version?, group: flat.group? },
            "person" => QuestionFrom::Person { row: flat.row? },
            "nobody" => QuestionFrom::Nobody,
            _ => return None,
        };
        Some(Self {
            point: flat.point,
            reason: flat.reason,
            from,
            question: flat.question,
            evidence: flat.evidence,
            fields: flat.fields,
            evaluations: flat.evaluations,
        })
    }
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
    /// Rows of evaluations that cannot be read: what they found is not known.
    pub unreadable: Vec<u64>,
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
    pub asks: Vec<At<Ask>>,
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
        if row.kind == "asked" {
            match Ask::read(&row.body) {
                Some(ask) => self.take_ask(seq, at_ms, ask),
                None => self.not_understood += 1,
            }
            return;
        }
        match row.entry() {
            Ok(entry) => self.take(seq, at_ms, entry),
            Err(_) => {
                self.not_understood += 1;
                if row.kind == "evaluated" {
                    self.unreadable.push(seq);
                }
            }
        }
    }

    fn take_ask(&mut self, row: u64, at_ms: i64, ask: Ask) {
        if let QuestionFrom::Person { row } = ask.from {
            self.waiting.retain(|(waiting, _)| *waiting != row);
        }
        self.asks.push(At { row, at_ms, what: ask });
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
            // Read by its own way, before.
            Entry::Asked(_) => {}
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
    pub fn open_question(&self) -> Option<&At<Ask>> {
        let asked = self.asks.iter().rev().find(|a| !a.what.is_silence())?;
        let answered = self.answers.iter().any(|a| a.what.question == asked.row);
        (!answered).then_some(asked)
    }

    /// What the agent said last, with its rows, newest first: hypotheses, answers, last words. Older words than these
    /// are no sign of anything now, and a long ledger holds thousands.
    pub fn words(&self) -> impl Iterator<Item = (u64, &str)> {
        let hypotheses = self.hypotheses.iter().rev().take(RECENT).map(|h| (h.row, h.what.text.as_str()));
        let answers = self.answers.iter().rev().take(RECENT).map(|a| (a.row, a.what.text.as_str()));
        let stops = self.stops.iter().rev().take(RECENT).map(|s| (s.row, s.what.words.as_str()));
        let mut said: Vec<(u64, &str)> = hypotheses.chain(answers).chain(stops).collect();
        said.sort_by_key(|(row, _)| std::cmp::Reverse(*row));
        said.into_iter()
    }

    /// Whether a hypothesis was stated after the last question.
    #[must_use]
    pub fn hypothesis_due(&self) -> bool {
        let asked = self.asks.iter().rev().find(|a| !a.what.is_silence());
        asked.is_some_and(|a| !self.hypotheses.iter().any(|h| h.row > a.row))
    }
}
