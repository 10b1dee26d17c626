//! Coding agents as the outer loop sees them.
//!
//! Duty: say how one turn of an agent is started, and understand what it prints. A turn is one process behind the
//! fence: it gets a prompt, works, asks the supervisor over its socket, and leaves. What it says about itself is shown
//! and never believed; what counts comes from the ledger.
//!
//! Nothing here touches a file, a process or the terminal. An agent's own process is driven by the supervisor; the
//! built-in ones act through [`replay::Hands`].

mod builtin;
mod command;
mod heard;
pub mod replay;
mod task;

pub use builtin::{BuiltIn, Resume};
pub use command::CommandAgent;
pub use heard::{Heard, LONGEST_LINE, hear};
pub use task::{Brief, again, first};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// One turn: from the start of the agent's process until it has left.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Its number in this run, from 1.
    pub number: u32,
    /// What the agent is told.
    pub prompt: &'a str,
    /// How an earlier turn said that it is resumed; none begins anew.
    pub session: Option<&'a str>,
}

/// How a turn is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program: a path, or a name to look for.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What is added to its environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Where it must be able to write besides the workspace: its own configuration and transcripts.
    pub write: Vec<PathBuf>,
}

/// A coding agent.
///
/// Every agent that can be started without a person is one: a program that takes a prompt, prints what it does line by
/// line, can be resumed by a name that it has printed, and ends.
pub trait Agent {
    /// Its name, as people type it and rows hold it.
    fn name(&self) -> &str;
    /// How a turn is started.
    fn invoke(&mut self, turn: &Turn<'_>) -> Invocation;
    /// What one line of its standard output says. Lines that say nothing worth showing give nothing.
    fn hear(&mut self, line: &str) -> Vec<Heard>;
}
