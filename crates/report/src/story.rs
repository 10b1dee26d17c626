//! What happened, one line for each thing that a reader wants to know.

use crate::words;
use kernelseek_campaign::{Board, MODE, no_contender};
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::verdict::{Ratio, Stage, Trust, Word};
use kernelseek_ledger::entry::{
    Answered, Asked, Counts, Edit, Evaluated, Hypothesis, Led, NotPromoted, Promoted, Purpose, QuestionFrom,
};
use kernelseek_ledger::{Entry, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Row that it is from; `kernelseek log --row N` shows it whole.
    pub row: u64,
    /// When it was written, milliseconds since 1970.
    pub at_ms: i64,
    /// Milliseconds since the campaign began.
    pub since_ms: i64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// The agent, a person, or in the end the supervisor evaluated something.
    Attempt(Box<Attempt>),
    /// A hypothesis that no attempt followed, or that another one replaced.
    Hypothesis {
        /// It.
        stated: Stated,
    },
    /// A question was asked.
    Question {
        /// Decision point; none for a person's question between two of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<DecisionPoint>,
        /// What made it one, in words.
        reason: String,
        /// Entry of the bank; none for a person's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<String>,
        /// The question.
        question: String,
        /// Its answers, in order.
        answers: Vec<Answer>,
    },
    /// The agent wanted to stop.
    Stop {
        /// Whether it was let go.
        allowed: bool,
        /// Which rule decided.
        rule: String,
        /// What it was told.
        reason: String,
        /// Its last words.
        words: String,
    },
    /// An evaluation ended without a verdict.
    Abandoned {
        /// What was evaluated, and why.
        purpose: Option<Purpose>,
        /// Why there is none.
        why: String,
    },
    /// Sealed, for the first time or again.
    Sealed {
        /// Hash of the seal.
        seal: String,
        /// Parts that differ from the seal before.
        changed: Vec<String>,
        /// Why.
        because: String,
        /// Whether results before it are STALE.
        stale: bool,
    },
    /// An agent was started behind the fence, or without all of it.
    AgentStarted {
        /// Its name, if it takes turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Number of the turn in its run, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        /// Its command.
        command: Vec<String>,
        /// What the fence holds.
        layers: Vec<String>,
        /// Whether every layer that a win needs holds.
        fenced: bool,
    },
    /// It has left.
    AgentLeft {
        /// How it ended.
        ended: String,
        /// Processes that had to be killed.
        killed: usize,
    },
    /// A request of a led agent was refused.
    Refused {
        /// What was asked.
        request: String,
        /// Why not.
        why: String,
    },
    /// The ledger came from elsewhere.
    Imported {
        /// Hash of the last row that came along.
        head: String,
    },
    /// The campaign went on in another folder.
    Moved {
        /// Why that is one of its folders.
        because: String,
    },
    /// The campaign ended.
    Ended {
        /// Whether its goal is met.
        met: bool,
        /// Why.
        reason: String,
    },
}

/// An evaluation, what was expected of it and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Who asked for it: `attempt` or `final`. The engine's own second measurements are part of the attempt's outcome.
    pub purpose: Purpose,
    /// Tier.
    pub tier: String,
    /// Mode.
    pub mode: String,
    /// Whether it covered the sealed grid whole.
    pub whole_grid: bool,
    /// Word.
    pub word: Word,
    /// Last stage that every scenario passed.
    pub passed: Stage,
    /// Trust.
    pub trust: Trust,
    /// Counts.
    pub counts: Counts,
    /// Scenarios that fail, the first few.
    pub failing: Vec<String>,
    /// Defence ids of what is not cleared.
    pub defences: Vec<String>,
    /// Geometric mean.
    pub geomean: Option<Ratio>,
    /// How the sources differ from the evaluation before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
    /// Whether a supervisor led the agent.
    pub led: bool,
    /// Candidate hash; empty if it could not be built.
    pub candidate_hash: String,
    /// Whether it is of another seal than the one in force.
    pub stale: bool,
    /// What was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypothesis: Option<Stated>,
    /// Ratio to the incumbent of that moment, of the measurement that counts; none unless the whole grid was measured
    /// and nothing is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// What came of it.
    pub outcome: Outcome,
}

/// A hypothesis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stated {
    /// Its row.
    pub row: u64,
    /// In the agent's words.
    pub text: String,
    /// Layer that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Ratio to the incumbent that it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<f64>,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Outcome {
    /// It became the incumbent.
    Promoted {
        /// Row that says so.
        row: u64,
        /// Row of the second measurement.
        evaluated: u64,
        /// Its aggregate, the one that counts.
        geomean: Ratio,
    },
    /// Its contest was lost.
    NotPromoted {
        /// Why.
        why: String,
        /// Scenarios that fell.
        fallen: Vec<String>,
    },
    /// It was no contender.
    NoContender {
        /// Why.
        why: String,
    },
    /// A contender whose contest was never settled.
    Unsettled,
    /// The supervisor's own: it promotes nothing.
    Final,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Its row.
    pub row: u64,
    /// In the agent's words.
    pub text: String,
    /// Whether the evidence holds; none where there was none to check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Why it was not accepted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What the rows say about each other, known before they are told.
struct Links<'a> {
    board: &'a Board,
    promoted: BTreeMap<u64, (u64, Promoted)>,
    lost: BTreeMap<u64, NotPromoted>,
    answers: BTreeMap<u64, Vec<Answer>>,
    seed: String,
}

/// The story of rows that `board` was folded from. `seed` is the seed's hash; empty if it is not known.
pub(crate) fn story(rows: &[Row], board: &Board, seed: &str) -> Vec<Line> {
    let entries: Vec<(&Row, Entry)> = rows.iter().filter_map(|r| Some((r, r.entry().ok()?))).collect();
    let mut links = Links {
        board,
        promoted: BTreeMap::new(),
        lost: BTreeMap::new(),
        answers: BTreeMap::new(),
        seed: seed.to_owned(),
    };
    for (row, entry) in &entries {
        match entry {
            Entry::Promoted(p) => {
                links.promoted.insert(p.first, (row.seq, p.clone()));
            }
            Entry::NotPromoted(n) => {
                links.lost.insert(n.first, n.clone());
            }
            Entry::Answered(a) => links.answers.entry(a.question).or_default().push(answer(row.seq, a)),
            _ => {}
        }
    }
    let mut teller = Teller {
        links,
        began: rows.first().map_or(0, |r| r.at_ms),
        lines: Vec::new(),
        stated: None,
        incumbent: None,
        seal: String::new(),
        ended: false,
    };
    for (row, entry) in entries {
        teller.take(row, entry);
    }
    teller.forget();
    teller.lines
}

fn answer(row: u64, a: &Answered) -> Answer {
    Answer { row, text: a.text.clone(), accepted: a.accepted, why: a.why.clone() }
}

struct Teller<'a> {
    links: Links<'a>,
    began: i64,
    lines: Vec<Line>,
    /// Stated since the last attempt.
    stated: Option<(i64, Stated)>,
    /// Hash and aggregate of the incumbent.
    incumbent: Option<(String, f64)>,
    seal: String,
    ended: bool,
}

impl Teller<'_> {
    fn line(&mut self, row: u64, at_ms: i64, event: Event) {
        self.lines.push(Line { row, at_ms, since_ms: at_ms.saturating_sub(self.began), event });
    }

    /// A hypothesis that nothing came of stands for itself.
    fn forget(&mut self) {
        if let Some((at_ms, stated)) = self.stated.take() {
            let row = stated.row;
            let place = self.lines.partition_point(|l| l.row < row);
            let line = Line {
                row,
                at_ms,
                since_ms: at_ms.saturating_sub(self.began),
                event: Event::Hypothesis { stated },
            };
            self.lines.insert(place, line);
        }
    }

    fn take(&mut self, row: &Row, entry: Entry) {
        let event = match entry {
            Entry::Sealed(s) => {
                let again = !self.seal.is_empty();
                let stale = again && s.seal != self.seal;
                if s.seal != self.seal {
                    self.incumbent = None;
                }
                self.seal.clone_from(&s.seal);
                self.ended = false;
                Event::Sealed { seal: s.seal, changed: s.changed, because: s.because, stale }
            }
            Entry::Evaluated(e) if matches!(e.purpose, Purpose::Attempt | Purpose::Final) => {
                self.attempt(row, &e);
                return;
            }
            Entry::Promoted(p) => {
                self.incumbent = Some((p.candidate_hash, p.geomean.point));
                return;
            }
            Entry::Hypothesis(h) => {
                self.forget();
                self.stated = Some((row.at_ms, stated(row.seq, h)));
                return;
            }
            Entry::Asked(a) if !a.is_silence() => self.question(row.seq, *a),
            Entry::StopAttempted(s) => {
                Event::Stop { allowed: s.allowed, rule: s.rule, reason: s.reason, words: s.words }
            }
            Entry::Abandoned(a) => {
                let purpose = self
                    .links
                    .board
                    .abandoned
                    .iter()
                    .find(|(seq, _)| *seq == row.seq)
                    .map(|(_, started)| started.purpose);
                Event::Abandoned { purpose, why: a.why }
            }
            Entry::Led(Led::Started { command, layers, fenced, agent, turn }) => {
                Event::AgentStarted { agent, turn, command, layers, fenced }
            }
            Entry::Led(Led::Left { ended, killed, .. }) => Event::AgentLeft { ended, killed },
            Entry::Led(Led::Refused { request, why }) => Event::Refused { request, why },
            Entry::ImportedFrom(i) => Event::Imported { head: i.head },
            Entry::Workspace(w) if w.because != "sealed" => Event::Moved { because: w.because },
            Entry::Ended(e) => {
                self.ended = true;
                Event::Ended { met: e.met, reason: e.reason }
            }
            _ => return,
        };
        self.line(row.seq, row.at_ms, event);
    }

    fn question(&mut self, row: u64, asked: Asked) -> Event {
        let entry = match asked.from {
            QuestionFrom::Bank { entry, .. } => Some(entry),
            QuestionFrom::Person { .. } | QuestionFrom::Nobody => None,
        };
        Event::Question {
            point: asked.point,
            reason: asked.reason,
            entry,
            question: asked.question,
            answers: self.links.answers.remove(&row).unwrap_or_default(),
        }
    }

    fn attempt(&mut self, row: &Row, e: &Evaluated) {
        let outcome = self.outcome(row.seq, e);
        let counted = match &outcome {
            Outcome::Promoted { geomean, .. } => Some(geomean.point),
            _ => e.geomean.map(|g| g.point),
        };
        let bar = self.incumbent.as_ref().map_or(1.0, |(_, point)| *point);
        let measured = counted
            .filter(|_| {
                e.purpose == Purpose::Attempt && e.whole_grid && e.mode == MODE && words::counts(e.word)
            })
            .map(|point| point / bar)
            .filter(|m| m.is_finite());
        // The supervisor's own evaluation tests nothing that was stated.
        let hypothesis =
            if e.purpose == Purpose::Attempt { self.stated.take().map(|(_, stated)| stated) } else { None };
        let attempt = Attempt {
            purpose: e.purpose,
            tier: e.tier.clone(),
            mode: e.mode.clone(),
            whole_grid: e.whole_grid,
            word: e.word,
            passed: e.passed,
            trust: e.trust,
            counts: e.counts,
            failing: e.failing.clone(),
            defences: e.defences.clone(),
            geomean: e.geomean,
            edit: e.edit,
            led: e.led,
            candidate_hash: e.candidate_hash.clone(),
            stale: e.seal != self.links.board.seal_hash(),
            hypothesis,
            measured,
            outcome,
        };
        self.line(row.seq, row.at_ms, Event::Attempt(Box::new(attempt)));
    }

    fn outcome(&self, row: u64, e: &Evaluated) -> Outcome {
        if e.purpose == Purpose::Final {
            return Outcome::Final;
        }
        if let Some((seq, p)) = self.links.promoted.get(&row) {
            return Outcome::Promoted { row: *seq, evaluated: p.evaluated, geomean: p.geomean };
        }
        if let Some(n) = self.links.lost.get(&row) {
            return Outcome::NotPromoted { why: n.why.clone(), fallen: n.fallen.clone() };
        }
        if self.ended {
            return Outcome::NoContender { why: "the campaign had ended".to_owned() };
        }
        let correct = words::counts(e.word) && e.passed >= Stage::Correct;
        let incumbent = self.incumbent.as_ref().map(|(hash, point)| (hash.as_str(), *point));
        match no_contender(e, correct, &self.links.seed, incumbent) {
            Some(why) => Outcome::NoContender { why: why.to_owned() },
            None => Outcome::Unsettled,
        }
    }
}

fn stated(row: u64, h: Hypothesis) -> Stated {
    Stated { row, text: h.text, layer: h.layer, expect: h.expect.filter(|x| x.is_finite()) }
}
