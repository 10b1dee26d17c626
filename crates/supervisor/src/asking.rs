//! Asking: a person's question first, else one of the bank, else a silence; and what the agent answers.

use crate::error::SupervisorError;
use crate::files::plain;
use crate::sealing;
use crate::supervised::{Campaign, draw, now_ms};
use kernelseek_campaign::{Ask, Occasion, signals};
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_ledger::entry::{self, Answered, Hypothesis, PersonAsked, QuestionFrom};
use kernelseek_ledger::{Batch, Entry};
use kernelseek_questions::{Asked, Bank, Choice, Opportunity, Policy};
use serde::{Deserialize, Serialize};

/// Longest words that are kept, in characters.
const LONGEST: usize = 2_000;
/// Largest object that is handed in, as JSON, in bytes.
const LARGEST: usize = 256 << 10;

/// A question as the agent sees it. Neither probabilities nor signals are in it: the agent must not know what moves
/// the choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Row of the ask.
    pub row: u64,
    /// Decision point; none for a person's question between two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<DecisionPoint>,
    /// What made it one.
    pub reason: String,
    /// Whether a person asks.
    pub person: bool,
    /// The question.
    pub question: String,
    /// What would count as an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Form of the JSON object that shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fields: String,
}

impl Question {
    /// The question as an agent is told it.
    #[must_use]
    pub fn to_prompt(&self) -> String {
        let from = if self.person { "A person asks" } else { "Question" };
        let mut text = format!("{from} ({}, row {}): {}", self.reason, self.row, self.question);
        for evidence in &self.evidence {
            text.push_str(&format!("\nCounts as an answer: {evidence}"));
        }
        if !self.fields.is_empty() {
            text.push_str(&format!("\nAs JSON, for `kernelseek answer --artefact FILE`: {}", self.fields));
        }
        text
    }

    fn of(row: u64, asked: &Ask) -> Self {
        Self {
            row,
            point: asked.point,
            reason: asked.reason.clone(),
            person: matches!(asked.from, QuestionFrom::Person { .. }),
            question: asked.question.clone(),
            evidence: asked.evidence.clone(),
            fields: asked.fields.clone(),
        }
    }
}

impl Campaign {
    /// The platform that entries must apply to.
    fn target(&self) -> &'static str {
        // The seal holds the file to what it was; one that cannot be read has broken it, which is told elsewhere.
        let text = std::fs::read_to_string(self.site.problem().join("problem.toml")).unwrap_or_default();
        if sealing::runs_on_a_gpu(&text) { "cuda" } else { "cpu" }
    }

    /// The bank: the embedded one and, if the campaign names a folder, what is in it.
    fn bank(&self) -> Result<Bank, SupervisorError> {
        let wrong = |e: kernelseek_questions::BankError| SupervisorError::Bank(e.to_string());
        let embedded = kernelseek_questions::embedded().map_err(wrong)?;
        match self.in_force()?.file.questions.bank.as_ref() {
            None => Ok(embedded),
            Some(folder) => {
                let own = Bank::load(&self.site.folder.join(folder)).map_err(wrong)?;
                embedded.join(own).map_err(wrong)
            }
        }
    }

    /// Serves an occasion: writes who asks what, or that nobody does, and returns the question.
    pub(crate) fn ask(&mut self, occasion: &Occasion) -> Result<Option<Question>, SupervisorError> {
        let now_signals = self.with_scene(|scene| signals(scene, &scene.view()))?;
        let recorded = match serde_json::to_value(&now_signals)? {
            serde_json::Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        let evaluations = self.board.attempts().count() as u64;
        let draw = draw()?;
        let mut asked = entry::Asked {
            point: occasion.point,
            reason: occasion.reason.clone(),
            from: QuestionFrom::Nobody,
            question: String::new(),
            evidence: Vec::new(),
            fields: String::new(),
            probability: 1.0,
            silence: 0.0,
            eligible: Vec::new(),
            draw,
            signals: recorded,
            evaluations,
        };
        let person = self.board.waiting.front().filter(|_| occasion.point.is_none()).cloned();
        if let Some((row, text)) = person {
            asked.from = QuestionFrom::Person { row };
            asked.question = text;
        } else if let Some(point) = occasion.point {
            let bank = self.bank()?;
            let history = self.history(&bank);
            let opportunity = Opportunity {
                point,
                signals: &now_signals,
                history: &history,
                evaluations,
                target: self.target(),
                alternative: false,
            };
            let policy = Policy { silence: self.in_force()?.file.questions.silence };
            let selection = kernelseek_questions::select(&bank, &opportunity, &policy, draw);
            asked.probability = selection.probability;
            asked.silence = selection.silence;
            asked.eligible.clone_from(&selection.eligible);
            if let Choice::Entry(chosen) = selection.choice {
                asked.from = QuestionFrom::Bank {
                    entry: chosen.id.clone(),
                    version: chosen.version,
                    group: chosen.group.as_str().to_owned(),
                };
                asked.question.clone_from(&chosen.question);
                asked.evidence = chosen.evidence_expected.iter().map(|e| e.artifact.clone()).collect();
                asked.fields = chosen.outline();
            }
        }
        let rows = self.append(Batch::of(Entry::Asked(Box::new(asked))), now_ms())?;
        // Read back from the board, which is what the ledger says now.
        let asked = rows.first().and_then(|row| self.board.asks.iter().rev().find(|a| a.row == row.seq));
        Ok(asked.filter(|a| !a.what.is_silence()).map(|a| Question::of(a.row, &a.what)))
    }

    /// What was asked of the bank so far, as its selection reads it.
    fn history(&self, bank: &Bank) -> Vec<Asked> {
        let step = self.board.last_step();
        self.board
            .asks
            .iter()
            .filter_map(|a| {
                let QuestionFrom::Bank { entry, .. } = &a.what.from else { return None };
                let group = bank.get(entry)?.group;
                let answered = self
                    .board
                    .answers
                    .iter()
                    .rev()
                    .find(|b| b.what.question == a.row)
                    .and_then(|b| b.what.accepted);
                Some(Asked {
                    entry: entry.clone(),
                    group,
                    at_evaluation: a.what.evaluations,
                    since_promotion: a.row > step,
                    answered,
                })
            })
            .collect()
    }

    /// The question that waits for an answer.
    #[must_use]
    pub fn open_question(&self) -> Option<Question> {
        self.board.open_question().map(|a| Question::of(a.row, &a.what))
    }

    /// The question that waits for an answer; without one, the one that is due now, if the campaign is at a decision
    /// point. Asking is written down, as is a silence.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn question_now(&mut self) -> Result<Option<Question>, SupervisorError> {
        if let Some(open) = self.open_question() {
            return Ok(Some(open));
        }
        match self.with_scene(|scene| scene.occasion())? {
            Some(occasion) => self.ask(&occasion),
            None => Ok(None),
        }
    }

    /// A person's question, asked at the next occasion before any other.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn person_asks(&mut self, question: &str) -> Result<u64, SupervisorError> {
        self.in_force()?;
        let entry = PersonAsked { question: plain(question, LONGEST) };
        let rows = self.append(Batch::of(Entry::PersonAsked(entry)), now_ms())?;
        Ok(rows.first().map_or(0, |r| r.seq))
    }

    /// States a hypothesis.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub fn state(
        &mut self,
        text: &str,
        layer: Option<Layer>,
        expect: Option<f64>,
    ) -> Result<u64, SupervisorError> {
        self.in_force()?;
        let entry = Hypothesis { text: plain(text, LONGEST), layer, expect };
        let rows = self.append(Batch::of(Entry::Hypothesis(entry)), now_ms())?;
        Ok(rows.first().map_or(0, |r| r.seq))
    }

    /// Answers the open question, or that of row `question`.
    ///
    /// # Errors
    /// When there is none, or what is handed in cannot be judged.
    pub fn answer(
        &mut self,
        question: Option<u64>,
        text: &str,
        artefact: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Answered, SupervisorError> {
        if serde_json::to_vec(&artefact)?.len() > LARGEST {
            return Err(SupervisorError::Answer(format!(
                "what is handed in is larger than {} KiB",
                LARGEST >> 10
            )));
        }
        let asked = match question {
            None => self.board.open_question().cloned(),
            Some(row) => self.board.asks.iter().find(|a| a.row == row && !a.what.is_silence()).cloned(),
        };
        let Some(asked) = asked else {
            let text = match question {
                None => "no question is open".to_owned(),
                Some(row) => format!("row {row} is no question"),
            };
            return Err(SupervisorError::NoQuestion(text));
        };
        let (accepted, why) = match &asked.what.from {
            // A person judges their answer themselves.
            QuestionFrom::Person { .. } | QuestionFrom::Nobody => (None, String::new()),
            QuestionFrom::Bank { entry, .. } => {
                let bank = self.bank()?;
                match bank.get(entry) {
                    None => (None, format!("the bank has no entry {entry} any more")),
                    Some(_) if artefact.is_empty() => (Some(false), "nothing was handed in".to_owned()),
                    Some(entry) => match kernelseek_questions::judge_answer(entry, &artefact) {
                        Ok(true) => (Some(true), String::new()),
                        Ok(false) => {
                            (Some(false), "what was handed in does not show what was asked".to_owned())
                        }
                        Err(error) => return Err(SupervisorError::Answer(error.to_string())),
                    },
                }
            }
        };
        let answered = Answered { question: asked.row, text: plain(text, LONGEST), artefact, accepted, why };
        self.append(Batch::of(Entry::Answered(answered.clone())), now_ms())?;
        Ok(answered)
    }
}
