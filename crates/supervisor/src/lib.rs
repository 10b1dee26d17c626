//! Drives a campaign: opens the ledger, runs evaluations, and does what the state machine says.
//!
//! Duty: the I/O between [`kernelseek_campaign`], which decides, the ledger, which remembers, and the evaluator, which
//! says what is true. It also leads an agent: behind a fence, over a socket, with the last evaluation its own.

mod asking;
mod attempt;
pub mod client;
mod copies;
mod drive;
mod error;
mod files;
mod ground;
mod last;
mod lead;
pub mod protocol;
mod reach;
mod recording;
mod reporting;
mod sealing;
mod server;
mod site;
mod status;
mod stop;
mod supervised;
mod turn;
mod watched;

pub use asking::Question;
pub use attempt::{Attempt, Request};
pub use drive::{Driven, Driving, drive};
pub use error::SupervisorError;
pub use ground::Place;
pub use last::Outcome;
pub use lead::{Leading, LedOutcome, lead};
pub use recording::Recording;
pub use sealing::Resealed;
pub use site::Site;
pub use status::{Standing, Status};
pub use stop::Stop;
pub use supervised::{Campaign, Openness, fresh_secret, now_ms};
pub use watched::Watched;
