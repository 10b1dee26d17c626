//! The built-in agent `replay`: plays recorded edits. Nothing about their verdicts is recorded.

mod play;
mod script;

pub use play::{Hands, Said, play};
pub use script::{Answer, CameOut, Effort, FILE, Script, ScriptError, Statement, Step, parse};
