//! Tuning: which values of a candidate's tunables, and which compiler flags, are best in which scenarios.
//!
//! Duty: decide what to measure next ([`halving`]), what the measurements say ([`routes`]), and write it down as C
//! ([`header`]); [`tuner`] plays it through over whatever evaluates. No I/O and no clock of its own.

pub mod arms;
pub mod estimate;
pub mod halving;
pub mod header;
pub mod known;
mod outcome;
pub mod routes;
pub mod tree;
pub mod tuner;

pub use arms::Assignment;
pub use halving::{Budget, Halving, Step};
pub use outcome::{ArmReport, Gain, Outcome};
