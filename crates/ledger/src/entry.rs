//! Entries: what a row says. Fields are only ever added, with a default, so that old rows stay readable.

use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::verdict::{Ratio, Stage, Trust, Word};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The campaign begins.
    Created(Created),
    /// Problem, goal and everything that results rest on were sealed.
    Sealed(Sealed),
    /// A folder belongs to the campaign.
    Workspace(Workspace),
    /// An evaluation begins.
    EvaluationStarted(Started),
    /// An evaluation has a verdict.
    Evaluated(Box<Evaluated>),
    /// An evaluation ended without a verdict: the harness failed, or the process died.
    Abandoned(Abandoned),
    /// A candidate became the incumbent.
    Promoted(Promoted),
    /// A candidate that looked better did not become the incumbent.
    NotPromoted(NotPromoted),
    /// A question was asked, or a silence kept where one could have been.
    Asked(Box<Asked>),
    /// A person has a question for the agent.
    PersonAsked(PersonAsked),
    /// The agent says what it expects before it edits.
    Hypothesis(Hypothesis),
    /// The agent answers a question.
    Answered(Answered),
    /// The agent wanted to stop.
    StopAttempted(StopAttempted),
    /// Something about a led agent.
    Led(Led),
    /// Bulk was dropped by the retention rule.
    Pruned(Pruned),
    /// The ledger was imported.
    ImportedFrom(ImportedFrom),
    /// The campaign ended.
    Ended(Ended),
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

impl Entry {
    /// Reads the body of a row of this kind. A long ledger is read whole before every decision, so the kind that the
    /// row names is used: reading a tagged form without knowing the tag keeps everything twice.
    ///
    /// # Errors
    /// When the body is not the JSON of an entry of this kind.
    pub fn read(kind: &str, body: &str) -> Result<Self, serde_json::Error> {
        use serde_json::from_str as read;
        match kind {
            "created" => read(body).map(Self::Created),
            "sealed" => read(body).map(Self::Sealed),
            "workspace" => read(body).map(Self::Workspace),
            "evaluation_started" => read(body).map(Self::EvaluationStarted),
            "evaluated" => read(body).map(Self::Evaluated),
            "abandoned" => read(body).map(Self::Abandoned),
            "promoted" => read(body).map(Self::Promoted),
            "not_promoted" => read(body).map(Self::NotPromoted),
            "person_asked" => read(body).map(Self::PersonAsked),
            "hypothesis" => read(body).map(Self::Hypothesis),
            "answered" => read(body).map(Self::Answered),
            "stop_attempted" => read(body).map(Self::StopAttempted),
            "asked" => read(body).map(Self::Asked),
            _ => read(body),
        }
    }

    /// The kind as rows hold it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Sealed(_) => "sealed",
            Self::Workspace(_) => "workspace",
            Self::EvaluationStarted(_) => "evaluation_started",
            Self::Evaluated(_) => "evaluated",
            Self::Abandoned(_) => "abandoned",
            Self::Promoted(_) => "promoted",
            Self::NotPromoted(_) => "not_promoted",
            Self::Asked(_) => "asked",
            Self::PersonAsked(_) => "person_asked",
            Self::Hypothesis(_) => "hypothesis",
            Self::Answered(_) => "answered",
            Self::StopAttempted(_) => "stop_attempted",
            Self::Led(_) => "led",
            Self::Pruned(_) => "pruned",
            Self::ImportedFrom(_) => "imported_from",
            Self::Ended(_) => "ended",
            Self::Unknown => "unknown",
        }
    }
}

/// The campaign begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// Campaign id.
    pub campaign: String,
    /// Version of the tool.
    pub tool: String,
}

/// A kept file: its path relative to what holds it, and its artefact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptFile {
    /// Path relative to the workspace or the problem's folder.
    pub path: String,
    /// Artefact; also the BLAKE3 hash of the file.
    pub hash: String,
}

/// A seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Hash of the seal.
    pub seal: String,
    /// The seal itself, an artefact.
    pub artefact: String,
    /// Why it was sealed again, in the words of whoever did.
    #[serde(default)]
    pub because: String,
    /// Parts that differ from the seal before.
    #[serde(default)]
    pub changed: Vec<String>,
    /// Files of the problem.
    #[serde(default)]
    pub problem: Vec<KeptFile>,
    /// The campaign file.
    pub campaign: KeptFile,
}

/// A folder of the campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Canonical path.
    pub path: PathBuf,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Why it is one: `sealed`, `git worktree`, `moved`.
    pub because: String,
}

/// Who asked for an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The agent, or a person.
    Attempt,
    /// The engine, to confirm a promotion independently.
    Confirm,
    /// The engine, to measure again what seems to have fallen.
    Remeasure,
    /// The supervisor, after the agent has left.
    Final,
}

/// An evaluation begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Candidate file relative to the workspace.
    pub candidate: String,
    /// Tier.
    pub tier: String,
    /// Who asked for it.
    pub purpose: Purpose,
    /// Process that evaluates.
    pub pid: u32,
}

/// Scenario counts of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All.
    pub scenarios: usize,
    /// With the word PASS.
    pub passed: usize,
    /// With the word UNRESOLVED.
    pub unresolved: usize,
    /// With the word UNPROVEN.
    pub unproven: usize,
    /// With the word FAIL.
    pub failing: usize,
    /// Run by the fallback.
    pub fallbacks: usize,
}

/// How a candidate's sources differ from those evaluated before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Edit {
    /// Lines added.
    pub added: usize,
    /// Lines deleted.
    pub deleted: usize,
    /// Added lines that one of the last edits had deleted.
    pub repeated: usize,
}

/// An evaluation has a verdict. The verdict itself is an artefact; what is here is what steering reads of every row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Row of its beginning.
    pub started: u64,
    /// Who asked for it.
    pub purpose: Purpose,
    /// Tier.
    pub tier: String,
    /// Mode, and the column where it is not `device`: `cold`, `cold graph`.
    pub mode: String,
    /// Whether it covered the sealed grid whole.
    pub whole_grid: bool,
    /// Seal in force.
    pub seal: String,
    /// Candidate file relative to the workspace.
    pub candidate: String,
    /// Candidate hash; empty if it could not be built.
    pub candidate_hash: String,
    /// The workspace's files that the build read.
    pub sources: Vec<KeptFile>,
    /// Word.
    pub word: Word,
    /// Last stage passed.
    pub passed: Stage,
    /// Trust.
    pub trust: Trust,
    /// Counts.
    pub counts: Counts,
    /// Scenarios that fail, the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// Defence ids of findings that are at least UNPROVEN, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defences: Vec<String>,
    /// Geometric mean.
    pub geomean: Option<Ratio>,
    /// Values of the candidate's tunables and its flags; empty without a kernel file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tunables: String,
    /// How the sources differ from the evaluation before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
    /// The verdict, an artefact.
    pub verdict: String,
    /// Raw pairs, an artefact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The built library, an artefact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Whether a supervisor led the agent.
    #[serde(default)]
    pub led: bool,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// An evaluation ended without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abandoned {
    /// Row of its beginning.
    pub started: u64,
    /// Why.
    pub why: String,
}

/// A candidate became the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promoted {
    /// Row of the confirming evaluation, the one whose numbers count.
    pub evaluated: u64,
    /// Row of the evaluation that made it a contender.
    pub first: u64,
    /// Candidate hash.
    pub candidate_hash: String,
    /// Geometric mean of the confirming evaluation.
    pub geomean: Ratio,
    /// Candidate hash of the incumbent before; empty for the seed.
    #[serde(default)]
    pub before: String,
}

/// A candidate did not become the incumbent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotPromoted {
    /// Row of the evaluation that made it a contender.
    pub first: u64,
    /// Why not.
    pub why: String,
    /// Scenarios that fell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallen: Vec<String>,
}

/// Who a question is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum QuestionFrom {
    /// The bank.
    Bank {
        /// Entry id.
        entry: String,
        /// Version of the entry.
        version: u64,
        /// Its group, `G1` … `G10`.
        group: String,
    },
    /// A person.
    Person {
        /// Row of their question.
        row: u64,
    },
    /// Nobody: a silence.
    Nobody,
}

/// An opportunity, and what was made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Decision point; none where a person's question comes between two of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<DecisionPoint>,
    /// What made it one, in words.
    pub reason: String,
    /// Who the question is from.
    #[serde(flatten)]
    pub from: QuestionFrom,
    /// The question; empty for a silence.
    #[serde(default)]
    pub question: String,
    /// What would count as an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Form of the JSON object that an answer hands in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fields: String,
    /// Probability with which this was chosen; 1 for a person's question.
    pub probability: f64,
    /// Share of silences.
    pub silence: f64,
    /// Eligible entries with their probabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eligible: Vec<(String, f64)>,
    /// The draw that decided, from 0 to 1.
    pub draw: f64,
    /// Signals at that moment.
    pub signals: serde_json::Map<String, serde_json::Value>,
    /// Finished evaluations at that moment.
    pub evaluations: u64,
}

impl Asked {
    /// Whether nothing was asked.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        self.from == QuestionFrom::Nobody
    }
}

/// A person has a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAsked {
    /// The question.
    pub question: String,
}

/// What the agent expects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// In its own words.
    pub text: String,
    /// Layer that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Ratio to the incumbent that it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<f64>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Row of the question.
    pub question: u64,
    /// In the agent's words.
    pub text: String,
    /// What it hands in.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub artefact: serde_json::Map<String, serde_json::Value>,
    /// Whether the entry's predicates hold on it; `None` where there are none to evaluate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// Why it was not accepted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The agent wanted to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAttempted {
    /// Whether it was let go.
    pub allowed: bool,
    /// What it was told.
    pub reason: String,
    /// Which rule decided (`met`, `unmet`, `not_evaluated`, `running`, …).
    pub rule: String,
    /// Its last words, cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// Something about a led agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Led {
    /// It was started.
    Started {
        /// Its command.
        command: Vec<String>,
        /// What the fence holds, in words.
        layers: Vec<String>,
        /// Whether every layer that a win needs holds.
        fenced: bool,
        /// Name of the agent, if it takes turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Number of the turn in its run, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
    },
    /// It has left, and nothing of it is left behind.
    Left {
        /// How it ended, in words.
        ended: String,
        /// Processes that had to be killed.
        killed: usize,
        /// How it said that it is resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A request was refused.
    Refused {
        /// What was asked.
        request: String,
        /// Why not.
        why: String,
    },
}

/// Bulk was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Artefacts.
    pub artefacts: Vec<String>,
    /// Bytes.
    pub bytes: u64,
}

/// The ledger was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFrom {
    /// Hash of the last row that came along.
    pub head: String,
    /// Version of the tool that imported.
    pub tool: String,
}

/// The campaign ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Whether its goal is met.
    pub met: bool,
    /// Why it ended.
    pub reason: String,
    /// Row of the evaluation that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluated: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_what_the_body_says() {
        let entries = [
            Entry::Created(Created { campaign: "c".into(), tool: "0".into() }),
            Entry::PersonAsked(PersonAsked { question: "why?".into() }),
            Entry::Led(Led::Left { ended: "exit 0".into(), killed: 0, session: None }),
            Entry::Ended(Ended { met: true, reason: "r".into(), evaluated: None }),
        ];
        for entry in entries {
            let value = serde_json::to_value(&entry).unwrap();
            assert_eq!(value["kind"], entry.kind());
            assert_eq!(serde_json::from_value::<Entry>(value).unwrap(), entry);
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_kept_and_not_understood() {
        let entry: Entry = serde_json::from_str(r#"{"kind":"rerouted","x":1}"#).unwrap();
        assert_eq!(entry, Entry::Unknown);
    }

    #[test]
    fn a_silence_is_an_ask_of_nobody() {
        let text = r#"{"kind":"asked","point":"plateau","reason":"r","from":"nobody","probability":0.1,"silence":0.1,
                       "draw":0.05,"signals":{},"evaluations":3}"#;
        let Entry::Asked(asked) = serde_json::from_str(text).unwrap() else { panic!("not asked") };
        assert!(asked.is_silence());
    }
}
