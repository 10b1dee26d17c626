//! An entry of the bank.

use crate::formula::Formula;
use crate::names::{AnswerForm, Group, Intent, ProvenanceKind, Status};
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::diagnostic::Source;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One question with when to ask it and what answers it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Stable name: `C001` in the ten groups, `X1` beside another implementation, `A-arch-01` for an architecture.
    pub id: String,
    /// Version of the wording; statistics belong to one.
    pub version: u64,
    /// Where it stands in its life.
    pub status: Status,
    /// Its group.
    pub group: Group,
    /// Layer that it moves the search to.
    pub layer_to: Option<Layer>,
    /// What asking is meant to bring about.
    pub intent: Option<Intent>,
    /// Where it may be asked; never empty.
    pub decision_points: Vec<DecisionPoint>,
    /// One sentence that ends in a question mark.
    pub question: String,
    /// Form of the answer.
    pub answer_form: AnswerForm,
    /// What answers it; never empty. An answer holds all of it.
    pub evidence_expected: Vec<Evidence>,
    /// When it may be asked.
    pub trigger: Trigger,
    /// What answering may cost.
    pub budget: Budget,
    /// What stands behind it.
    pub provenance: Provenance,
    /// To which campaigns it applies.
    pub applies_to: AppliesTo,
    /// What checking for leaks measured.
    pub leak_check: Option<LeakCheck>,
    /// What asking it has been seen to do.
    pub stats: Option<Stats>,
    /// Entries that it takes the place of.
    pub supersedes: Vec<String>,
    pub(crate) place: Place,
}

impl Entry {
    /// The fields that an answer has, in the order in which the entry names them, each once.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        let all = self.evidence_expected.iter().flat_map(|e| &e.fields);
        all.enumerate()
            .filter(|(i, field)| {
                !self.evidence_expected.iter().flat_map(|e| &e.fields).take(*i).any(|f| f.name == field.name)
            })
            .map(|(_, field)| field)
    }

    /// The outline of an answer, as JSON with a type in the place of every value.
    #[must_use]
    pub fn outline(&self) -> String {
        let fields: Vec<String> =
            self.fields().map(|f| format!("\"{}\": {}", f.name, f.of.outline())).collect();
        format!("{{{}}}", fields.join(", "))
    }

    /// The file in which it stands, as the bank was given it, and its line there, from 1.
    #[must_use]
    pub fn place(&self) -> (&str, usize) {
        (self.place.source.name(), self.place.source.position(self.place.entry.start).0)
    }
}

/// Where the parts of an entry stand in their file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) source: Arc<Source>,
    pub(crate) entry: Range<usize>,
    pub(crate) question: Range<usize>,
    pub(crate) signals: Range<usize>,
    pub(crate) requires: Range<usize>,
    pub(crate) references: Range<usize>,
    pub(crate) leak_check: Range<usize>,
    pub(crate) stats: Range<usize>,
}

/// One artefact of an answer. Its list fields are the columns of one table.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// What to hand in: a phrase that names every field.
    pub artifact: String,
    /// The fields and their types.
    pub fields: Vec<Field>,
    /// What must be true of them.
    pub predicate: Formula,
    pub(crate) artifact_span: Range<usize>,
    pub(crate) fields_span: Range<usize>,
}

/// A field of an artefact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: FieldType,
}

/// Type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldType {
    /// What it is, or what its elements are.
    pub scalar: Scalar,
    /// Whether it is a list: a column of a table.
    pub list: bool,
}

/// A type without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A 64-bit integer.
    Int,
    /// A double; an integer is taken for one.
    Double,
    /// `true` or `false`.
    Bool,
    /// A string.
    String,
}

impl Scalar {
    const ALL: [Self; 4] = [Self::Int, Self::Double, Self::Bool, Self::String];

    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::String => "string",
        }
    }
}

impl FieldType {
    /// The type written as `text`: `double`, `list(double)`.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let inner = text.strip_prefix("list(").and_then(|t| t.strip_suffix(')'));
        let scalar = Scalar::ALL.into_iter().find(|s| s.as_str() == inner.unwrap_or(text))?;
        Some(Self { scalar, list: inner.is_some() })
    }

    fn outline(self) -> String {
        let scalar = self.scalar.as_str();
        if self.list { format!("[{scalar}, …]") } else { scalar.to_owned() }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scalar = self.scalar.as_str();
        if self.list { write!(f, "list({scalar})") } else { f.write_str(scalar) }
    }
}

/// When an entry may be asked.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// True where asking makes sense.
    pub expr: Formula,
    /// The signals that it reads.
    pub signals: Vec<String>,
    /// Evaluations that must have finished before.
    pub min_observations: u64,
    /// Evaluations between two asks; a promotion ends the wait.
    pub cooldown_evals: u64,
    /// Asks in one campaign.
    pub max_asks_per_campaign: u64,
    /// Expressions each of which, when true, forbids asking. One that reads an absent signal forbids nothing.
    pub suppress_if: Vec<Formula>,
}

/// What answering may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Calls of tools.
    pub max_tool_calls: u64,
    /// Minutes.
    pub max_minutes: u64,
}

/// What stands behind an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// What kind of thing.
    pub kind: ProvenanceKind,
    /// Lines of traces, as `results/FILE:LINE`.
    pub trace_refs: Vec<String>,
    /// Public cases, as `QC-001`.
    pub case_refs: Vec<String>,
    /// Other sources.
    pub sources: Vec<String>,
    /// Who wrote it.
    pub author: Option<String>,
    /// Day it was added, as `2026-01-31`.
    pub added: Option<String>,
}

/// To which campaigns an entry applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliesTo {
    /// Targets; `any` is all of them, and so is an empty list.
    pub arch: Vec<String>,
    /// Whether another implementation must exist.
    pub needs_alternative: bool,
    /// Signals that must be present besides those of the trigger.
    pub requires_signals: Vec<String>,
}

impl AppliesTo {
    /// Whether an entry applies to campaigns for `target`.
    #[must_use]
    pub fn target(&self, target: &str) -> bool {
        self.arch.is_empty() || self.arch.iter().any(|a| a == "any" || a == target)
    }
}

/// What checking an entry for leaks measured.
#[derive(Debug, Clone, PartialEq)]
pub struct LeakCheck {
    /// No forbidden term.
    pub forbidden_terms_pass: bool,
    /// No solution that a reader agrees on.
    pub no_solution_pass: bool,
    /// Rate at which readers of the bank guess the operator; absent until measured.
    pub blind_guess_rate: Option<f64>,
    /// File under `results/` that holds the measurement.
    pub record: Option<String>,
}

/// What asking an entry has been seen to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// Asks.
    pub asked: Option<u64>,
    /// Answers with evidence.
    pub answered_with_evidence: Option<u64>,
    /// Asks after which the search moved to the layer.
    pub moved_layer: Option<u64>,
    /// Asks after which a promotion came within the horizon.
    pub promoted_within_h: Option<u64>,
    /// Invalid claims that it caught.
    pub invalid_claims_caught: Option<u64>,
    /// Posterior of the gain that asking brings.
    pub uplift_posterior: Option<Uplift>,
    /// Evidence against its being without effect.
    pub e_value: Option<f64>,
    /// File under `results/` that holds the measurement.
    pub record: Option<String>,
}

/// A posterior, by its mean and its 5th and 95th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Uplift {
    /// Mean.
    pub mean: Option<f64>,
    /// 5th percentile.
    pub p05: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
}

/// Whether `id` is one that an entry of `group` may have.
pub(crate) fn is_id(id: &str, group: Group) -> bool {
    let digits = |text: &str, n: usize| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
    match group {
        Group::Alt => id.strip_prefix('X').is_some_and(|n| digits(n, 1) && ("1"..="5").contains(&n)),
        Group::Arch => {
            id.strip_prefix("A-").and_then(|rest| rest.split_once('-')).is_some_and(|(arch, n)| {
                !arch.is_empty()
                    && arch.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                    && digits(n, 2)
            })
        }
        _ => id.strip_prefix('C').is_some_and(|n| digits(n, 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let table = [
            ("C001", Group::G1, true),
            ("C101", Group::G10, true),
            ("C1", Group::G1, false),
            ("C0001", Group::G1, false),
            ("C00a", Group::G1, false),
            ("X1", Group::G1, false),
            ("X1", Group::Alt, true),
            ("X6", Group::Alt, false),
            ("X", Group::Alt, false),
            ("C001", Group::Alt, false),
            ("A-x86-01", Group::Arch, true),
            ("A--01", Group::Arch, false),
            ("A-X86-01", Group::Arch, false),
            ("A-x86-1", Group::Arch, false),
            ("", Group::G1, false),
        ];
        for (id, group, expected) in table {
            assert_eq!(is_id(id, group), expected, "{id} in {group}");
        }
    }

    #[test]
    fn types_are_written_as_they_are_read() {
        for text in
            ["int", "double", "bool", "string", "list(int)", "list(double)", "list(bool)", "list(string)"]
        {
            assert_eq!(FieldType::of(text).unwrap().to_string(), text);
        }
        for text in ["", "float", "list()", "list(list(int))", "list(int", "int)"] {
            assert_eq!(FieldType::of(text), None, "{text}");
        }
    }
}
