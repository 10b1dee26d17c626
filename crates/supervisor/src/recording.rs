//! A campaign as a recording: the edits and words of its ledger, to be played again where verdicts may differ.

use crate::error::SupervisorError;
use crate::supervised::{Campaign, read_digest};
use kernelseek_agents::replay::{Answer, Effort, Script, Statement, Step};
use kernelseek_ledger::Entry;
use kernelseek_ledger::entry::{Evaluated, Purpose};
use std::collections::BTreeMap;

/// A recording with the files that its steps name.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The steps.
    pub script: Script,
    /// Name beside `replay.toml` → bytes.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Campaign {
    /// The attempts of this campaign as a recording. What was measured is not in it, nor which question was asked.
    ///
    /// # Errors
    /// When the ledger cannot be read, or holds no attempt.
    pub fn recording(&self) -> Result<Recording, SupervisorError> {
        let mut making = Making { campaign: self, known: BTreeMap::new(), files: BTreeMap::new() };
        let mut steps = Vec::new();
        let mut step = blank();
        for row in self.ledger.rows()? {
            match row.entry() {
                Ok(Entry::Answered(a)) => {
                    finish(&mut steps, &mut step, |s| s.answer.is_some() || s.statement.is_some());
                    step.answer = Some(Answer { text: a.text, values: a.artefact });
                }
                Ok(Entry::Hypothesis(h)) => {
                    finish(&mut steps, &mut step, |s| s.statement.is_some());
                    step.statement = Some(Statement { text: h.text, layer: h.layer, expect: h.expect });
                }
                Ok(Entry::Evaluated(e)) if e.purpose == Purpose::Attempt => {
                    making.evaluated(row.seq, &e, &mut step)?;
                    steps.push(std::mem::replace(&mut step, blank()));
                }
                Ok(Entry::StopAttempted(s)) => {
                    let words = if s.words.is_empty() { "done".to_owned() } else { s.words };
                    // The stop belongs to what was evaluated before it.
                    match steps.last_mut().filter(|last| last.stop.is_none() && is_blank(&step)) {
                        Some(last) => last.stop = Some(words),
                        None => {
                            step.stop = Some(words);
                            steps.push(std::mem::replace(&mut step, blank()));
                        }
                    }
                }
                _ => {}
            }
        }
        if !is_blank(&step) {
            steps.push(step);
        }
        if !steps.iter().any(|s| s.eval.is_some()) {
            return Err(SupervisorError::Refused("the campaign holds no evaluation yet".to_owned()));
        }
        let title = format!("recorded from {}", self.id());
        Ok(Recording { script: Script { title, steps }, files: making.files })
    }
}

struct Making<'a> {
    campaign: &'a Campaign,
    /// Files as the last step left them.
    known: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Making<'_> {
    fn evaluated(&mut self, row: u64, e: &Evaluated, step: &mut Step) -> Result<(), SupervisorError> {
        for source in &e.sources {
            if self.known.get(&source.path) == Some(&source.hash) {
                continue;
            }
            self.known.insert(source.path.clone(), source.hash.clone());
            let bytes = self.campaign.ledger.artefact(&source.hash)?.ok_or_else(|| {
                let why = "it was dropped".to_owned();
                SupervisorError::Unreadable { what: format!("{} of row {row}", source.path), why }
            })?;
            let name = format!("{row:04}_{}", source.path.replace('/', "_"));
            self.files.insert(name.clone(), bytes);
            step.files.insert(source.path.clone(), name);
        }
        step.eval = Some(match e.tier.as_str() {
            "quick" => Effort::Quick,
            "full" => Effort::Full,
            _ => Effort::Default,
        });
        if !e.whole_grid && e.tier != "quick" {
            // Without its verdict nobody knows which scenarios they were; then it is played on all.
            let digest = read_digest(&self.campaign.ledger, &e.verdict);
            step.only =
                digest.map_or_else(|_| Vec::new(), |d| d.scenarios.into_iter().map(|s| s.id).collect());
        }
        Ok(())
    }
}

fn blank() -> Step {
    Step {
        say: None,
        after: None,
        answer: None,
        statement: None,
        files: BTreeMap::new(),
        eval: None,
        only: Vec::new(),
        stop: None,
    }
}

fn is_blank(step: &Step) -> bool {
    *step == blank()
}

/// Begins a new step if this one has had what comes next.
fn finish(steps: &mut Vec<Step>, step: &mut Step, had: impl Fn(&Step) -> bool) {
    if had(step) {
        steps.push(std::mem::replace(step, blank()));
    }
}
