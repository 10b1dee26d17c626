//! The question bank.
//!
//! Duty: read a bank of questions, say what is wrong with it, choose at a decision point which question is asked (with
//! the probability of every choice), and say whether an answer holds the evidence that was asked for. Nothing here
//! keeps state, draws random numbers or reads a clock: the caller hands in the signals, the history and the draw.

mod answer;
mod bank;
mod document;
mod entry;
mod forbidden;
mod formula;
mod lint;
mod names;
mod parse;
pub mod records;
mod select;
pub mod signals;

pub use answer::{AnswerError, LONGEST_ANSWER, LONGEST_LIST, judge_answer};
pub use bank::{Bank, BankError, embedded};
pub use entry::{
    AppliesTo, Budget, Entry, Evidence, Field, FieldType, LeakCheck, Provenance, Scalar, Stats, Trigger,
    Uplift,
};
pub use formula::Formula;
pub use lint::{Lint, lint};
pub use names::{AnswerForm, Group, Intent, ProvenanceKind, Status};
pub use select::{Asked, Choice, Opportunity, Policy, Selection, select};
pub use signals::Signals;
