//! Domain types, problem parsing with spans, and pure judgement.
//!
//! Duty: say what a problem, a scenario and a verdict *are*, and decide from recorded facts. This crate
//! depends on no other crate of the workspace, does no I/O and reads no clock.

pub mod campaign_file;
pub mod case;
pub mod decision;
pub mod diagnostic;
pub mod dtype;
pub mod expression;
pub mod finding;
pub mod goal;
pub mod header;
pub mod held_out;
pub mod kernel_file;
pub mod layout;
pub mod problem;
pub mod resolve;
pub mod scenario;
pub mod value;
pub mod verdict;
pub mod wording;
