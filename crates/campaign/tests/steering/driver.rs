//! A driver without a machine behind it: it does what it is told to, and what comes of a measurement is given.

use crate::script::{Script, facts};
use crate::shot::{Shot, hash_of};
use crate::world::World;
use kernelseek_campaign::Action;
use kernelseek_ledger::entry::{
    Abandoned, Asked, Ended, Evaluated, NotPromoted, Promoted, Purpose, QuestionFrom, Started,
};
use kernelseek_ledger::{Entry, Row};

/// Actions after which the machine must be at rest: two measurements that die, or one that counts and another that
/// does; the verdict on promotion; a question; the end.
pub(crate) const MOST_ACTIONS: usize = 8;

/// What comes of a measurement that the machine asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The numbers of the first one.
    Same,
    /// The seed's.
    NoGain,
    /// A scenario is wrong.
    Wrong,
    /// One scenario fell, three rose.
    OneFell,
    /// The sources were edited meanwhile.
    OtherSources,
    /// Not one scenario was measured.
    Nothing,
    /// Its verdict cannot be read back.
    Unreadable,
    /// The process died, and the next one finds that.
    Died,
}

pub(crate) const OUTCOMES: [Outcome; 8] = [
    Outcome::Same,
    Outcome::NoGain,
    Outcome::Wrong,
    Outcome::OneFell,
    Outcome::OtherSources,
    Outcome::Nothing,
    Outcome::Unreadable,
    Outcome::Died,
];

impl World {
    /// Writes a row.
    pub(crate) fn push(&mut self, entry: &Entry) -> u64 {
        let seq = self.rows.len() as u64 + 1;
        self.now_ms += 1_000;
        let row = Row {
            seq,
            at_ms: self.now_ms,
            kind: entry.kind().to_owned(),
            body: serde_json::to_string(entry).unwrap(),
            prev: String::new(),
            hash: String::new(),
        };
        self.board.apply(&row);
        self.rows.push(row);
        seq
    }

    /// Does an action.
    pub(crate) fn act(&mut self, action: &Action, outcome: Outcome) {
        let entry = match action.clone() {
            Action::Confirm { first } => return self.measure(first, Purpose::Confirm, &[], outcome),
            Action::Remeasure { first, scenarios, .. } => {
                return self.measure(first, Purpose::Remeasure, &scenarios, outcome);
            }
            Action::Promote { first, evaluated, candidate_hash, geomean, before } => {
                Entry::Promoted(Promoted { evaluated, first, candidate_hash, geomean, before })
            }
            Action::NotPromote { first, why, fallen } => {
                Entry::NotPromoted(NotPromoted { first, why, fallen })
            }
            Action::Ask(occasion) => Entry::Asked(Box::new(Asked {
                point: occasion.point,
                reason: occasion.reason,
                // As the supervisor does: a person's question is asked as such, never in a decision point's place.
                from: match self.board.waiting.front().filter(|_| occasion.point.is_none()) {
                    Some((row, _)) => QuestionFrom::Person { row: *row },
                    None => QuestionFrom::Nobody,
                },
                question: String::new(),
                evidence: Vec::new(),
                fields: String::new(),
                probability: 1.0,
                silence: 0.1,
                eligible: Vec::new(),
                draw: 0.5,
                signals: serde_json::Map::new(),
                evaluations: 0,
            })),
            Action::End { reason } => Entry::Ended(Ended { met: false, reason, evaluated: None }),
        };
        self.push(&entry);
    }

    fn measure(&mut self, first: u64, purpose: Purpose, only: &[String], outcome: Outcome) {
        let first: Evaluated = self.board.evaluation(first).expect("an evaluation").facts.clone();
        let started = self.push(&Entry::EvaluationStarted(Started {
            candidate: first.candidate.clone(),
            tier: first.tier.clone(),
            purpose,
            pid: 1,
        }));
        if outcome == Outcome::Died {
            self.push(&Entry::Abandoned(Abandoned { started, why: "it died".to_owned() }));
            return;
        }
        let mut digest = serde_json::from_slice(&self.store.0[&first.verdict]).expect("the first verdict");
        let shot = match outcome {
            Outcome::NoGain => Shot::even("", 1.0),
            Outcome::Wrong => Shot::even("", 1.5).fails("odd"),
            Outcome::OneFell => Shot::of("", [0.5, 9.0, 9.0, 9.0]),
            Outcome::Nothing => Shot::even("", 1.5).with(|d| d.scenarios.clear()),
            _ => Shot::even("", 1.0).with(|d| std::mem::swap(d, &mut digest)),
        };
        let hash = if outcome == Outcome::OtherSources { hash_of("other") } else { first.candidate_hash };
        let mut shot = shot.with(|d| d.candidate_hash = hash);
        if !only.is_empty() {
            shot.digest.scenarios.retain(|s| only.contains(&s.id));
        }
        let verdict = if outcome == Outcome::Unreadable {
            "nowhere".to_owned()
        } else {
            let bytes = serde_json::to_vec(&shot.digest).unwrap();
            let name = kernelseek_ledger::artefact::hash(&bytes);
            self.store.0.insert(name.clone(), bytes);
            name
        };
        let seal = self.board.seal_hash().to_owned();
        let facts = facts(&shot, started, purpose, &seal, first.sources, verdict, false);
        self.push(&Entry::Evaluated(Box::new(facts)));
    }

    /// What the machine asks for now.
    pub(crate) fn next(&self) -> Option<Action> {
        self.scene()?.next()
    }

    /// Does what the machine says until it is at rest; what was done.
    ///
    /// # Errors
    /// When it is not at rest after [`MOST_ACTIONS`].
    pub(crate) fn settle(&mut self, mut outcome: impl FnMut() -> Outcome) -> Result<Vec<Action>, String> {
        let mut done = Vec::new();
        while let Some(action) = self.next() {
            if done.len() == MOST_ACTIONS {
                return Err(format!("after {done:?} still {action:?}"));
            }
            self.act(&action, outcome());
            done.push(action);
        }
        Ok(done)
    }
}

/// The world of a script whose entries end with its first `n` rows.
pub(crate) fn cut(script: &Script, n: usize) -> World {
    script.world().cut(n)
}
