//! What a campaign's ledger says, as a read model and as text.
//!
//! Duty: turn rows, verdicts and the sealed terms into one [`Report`], and a report into Markdown. It opens no file,
//! reads no clock and decides nothing: whether the goal is met, who is the incumbent and what a candidate's chances were
//! is asked of [`kernelseek_campaign`]. [`words`] holds the wording that the terminal's views share with it.

mod defences;
mod escape;
mod gather;
mod limits;
mod markdown;
mod model;
mod story;
mod subject;
pub mod words;

pub use defences::in_words;
pub use escape::{cell, code, inline};
pub use gather::{Material, gather};
pub use limits::Limit;
pub use markdown::markdown;
pub use model::{
    Chosen, FORMAT, Goal, Identity, Machine, Point, Questions, Report, Setting, State, Subject, Tally,
};
pub use story::{Answer, Attempt, Event, Line, Outcome, Stated};
