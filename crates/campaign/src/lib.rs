//! The campaign as a state machine without I/O: rows of the ledger go in, actions come out.
//!
//! Duty: know from the ledger alone where a campaign stands (incumbent, promotion, decision points, budget, whether the
//! agent may stop) and say what has to happen next. It opens no file, reads no clock and starts nothing; whoever drives
//! it hands in rows, verdicts and the time. So a campaign that was interrupted anywhere goes on as if it had not been:
//! the state *is* the ledger.

mod board;
mod budget;
mod detect;
mod edits;
mod machine;
pub mod outer;
mod promotion;
mod signals;
mod stop;
mod words;

pub use board::{Ask, At, Board, Evaluation, Running};
pub use budget::Spent;
pub use detect::Occasion;
pub use edits::edit;
pub use machine::{Action, Scene, Verdicts, View};
pub use promotion::{CONFIDENCE, Contest, PAIRS_FACTOR, no_contender};
pub use signals::signals;
pub use stop::{MODE, Situation, StopDecision, StopRule, speaks_for, unmet};
pub use words::{excuses, limits};
