//! What a newcomer is told beside the story: one or two plain lines where something happens that the tool exists for.
//! Every line comes from what happened; nothing is told that was not seen.

use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::finding::Severity;
use kernelseek_core::verdict::Word;
use kernelseek_supervisor::{Attempt, Outcome, Question, Stop, Watched};
use std::collections::BTreeSet;

/// Remembers what the reader has been told.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    /// Layers of the hypotheses since the last gain.
    layers: Vec<Layer>,
    /// A plateau was asked about, and the next hypothesis has not come yet.
    plateau: bool,
    /// A failure was asked about: the scenarios that fail.
    broken: BTreeSet<String>,
    /// Decision points that were explained.
    explained: BTreeSet<DecisionPoint>,
}

/// What is told beside the entries of one happening.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// After the first of them.
    pub(crate) first: Vec<String>,
    /// After the last.
    pub(crate) last: Vec<String>,
}

impl Narrator {
    /// The lines that a happening is worth.
    pub(crate) fn tell(&mut self, watched: &Watched) -> Told {
        let last = match watched {
            Watched::Stated(hypothesis) => {
                let moved = std::mem::take(&mut self.plateau)
                    .then_some(hypothesis.layer)
                    .flatten()
                    .filter(|layer| !self.layers.contains(layer));
                let line = moved.map(|to| {
                    format!("After the question the search moves: from {} to {to}.", list(&self.layers))
                });
                self.layers.extend(hypothesis.layer.filter(|l| !self.layers.contains(l)));
                line.into_iter().collect()
            }
            Watched::Attempt(attempt) => return self.attempt(attempt),
            Watched::Question(question) => self.question(question).into_iter().collect(),
            Watched::Stop(stop) => return self.stop(stop),
            Watched::Counted(outcome) => counted(outcome),
            _ => Vec::new(),
        };
        Told { first: Vec::new(), last }
    }

    fn attempt(&mut self, attempt: &Attempt) -> Told {
        let verdict = &attempt.evaluation.verdict;
        let mut lines = Vec::new();
        let failing: BTreeSet<String> =
            verdict.scenarios.iter().filter(|s| s.word == Word::Fail).map(|s| s.id.clone()).collect();
        let mut defences = verdict
            .findings
            .iter()
            .chain(verdict.scenarios.iter().flat_map(|s| &s.findings))
            .filter(|f| f.severity == Severity::Fail)
            .map(|f| f.defence.as_str());
        if defences.clone().any(|d| d == "correct.remembered") {
            lines.push(
                "Caught: every timed call gets new contents at old addresses, and the timed outputs are the checked \
                 ones. A cache has nothing to remember."
                    .to_owned(),
            );
        } else if defences.any(|d| d.starts_with("correct.")) && !failing.is_empty() {
            let all = verdict.scenarios.len();
            let which: Vec<&str> = failing.iter().map(String::as_str).collect();
            lines.push(if failing.len() == all && all > 1 {
                "Wrong everywhere: nothing was timed.".to_owned()
            } else {
                format!("Wrong on {}: no gain elsewhere makes up for it.", which.join(", "))
            });
        }
        let passed: Vec<String> = verdict
            .scenarios
            .iter()
            .filter(|s| matches!(s.word, Word::Pass | Word::Unresolved) && self.broken.contains(&s.id))
            .map(|s| s.id.clone())
            .collect();
        if !passed.is_empty() {
            self.broken.retain(|id| !passed.contains(id));
            lines.push(format!("{} is correct now: measured, not explained.", passed.join(", ")));
        }
        if attempt.questions.iter().any(|q| q.point == Some(DecisionPoint::CorrectnessBreak)) {
            // Which scenario it is about stands in its reason alone when the evaluation left it out.
            let reasons =
                attempt.questions.iter().filter(|q| q.point == Some(DecisionPoint::CorrectnessBreak));
            self.broken.extend(reasons.filter_map(|q| q.reason.split('`').nth(1).map(str::to_owned)));
        }
        let mut last = Vec::new();
        let audited = verdict.scenarios.iter().filter(|s| s.audited).count();
        if audited > 0 && attempt.questions.iter().any(|q| q.point == Some(DecisionPoint::SuspiciousWin)) {
            self.explained.insert(DecisionPoint::SuspiciousWin);
            last.push(format!(
                "So large a win is suspicious: {audited} of {} scenarios were audited at once (fresh workers, full \
                 references, changed inputs at the same address) and came out clean. It is asked about all the same.",
                verdict.scenarios.len()
            ));
        }
        for question in &attempt.questions {
            last.extend(self.question(question));
        }
        if attempt.promoted {
            self.layers.clear();
            self.plateau = false;
        }
        Told { first: lines, last }
    }

    fn question(&mut self, question: &Question) -> Option<String> {
        let point = question.point?;
        if point == DecisionPoint::Plateau {
            self.plateau = true;
        }
        if !self.explained.insert(point) {
            return None;
        }
        Some(match point {
            DecisionPoint::CampaignStart => {
                "The first of five decision points. The evaluator asks one short question, which a measurement \
                 answers; it never supplies the solution."
                    .to_owned()
            }
            DecisionPoint::Plateau => {
                let at = if self.layers.is_empty() {
                    "so far".to_owned()
                } else {
                    format!("at the layer {}", list(&self.layers))
                };
                format!("A plateau: what was tried {at} brought nothing, so the question is about another layer.")
            }
            DecisionPoint::CorrectnessBreak => {
                "A failure that is explained or left out instead of measured is asked about every time.".to_owned()
            }
            DecisionPoint::SuspiciousWin => "So large a win is asked about, whoever made it.".to_owned(),
            DecisionPoint::ClaimedLimit => {
                "Whoever wants to stop short of the goal is asked, and sent back.".to_owned()
            }
        })
    }

    fn stop(&mut self, stop: &Stop) -> Told {
        let mut lines = Vec::new();
        if let Some(judgement) = stop.decision.judgement.as_ref().filter(|_| !stop.decision.allow) {
            let missing: Vec<&str> =
                judgement.missing_scenarios().iter().map(|m| m.scenario.as_str()).take(3).collect();
            let aggregate = judgement.clauses.iter().any(|c| c.met && c.clause.starts_with("geomean"));
            if !missing.is_empty() && aggregate {
                lines.push(format!(
                    "The average is reached, but the goal is about every scenario: {} is still below.",
                    missing.join(", ")
                ));
            }
        }
        let last = stop.question.iter().filter_map(|q| self.question(q)).collect();
        Told { first: lines, last }
    }
}

fn counted(outcome: &Outcome) -> Vec<String> {
    let Some(verdict) = outcome.verdict.as_ref().filter(|_| outcome.met) else { return Vec::new() };
    let held_out = verdict.held_out.as_ref().map_or_else(String::new, |h| {
        format!(", with {} held-out scenarios that nobody had seen ({} passed)", h.drawn, h.passed)
    });
    vec![format!("The agent had left: nothing it could write to or talk to took part in this{held_out}.")]
}

fn list(layers: &[Layer]) -> String {
    layers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
