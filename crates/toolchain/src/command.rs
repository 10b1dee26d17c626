//! The seam between a build and how it is run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One process that a build needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildCommand {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
    /// Working folder: the workspace.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Files and folders it has to read, the writable ones not repeated.
    pub readable: Vec<PathBuf>,
    /// Folders it has to write.
    pub writable: Vec<PathBuf>,
    /// Wall time after which it is to be ended, with everything it started.
    pub deadline: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Ended by the runner at its deadline.
    Deadline,
}

/// What a process left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub exit: Exit,
    /// Standard output, cut by the runner to what it keeps.
    pub stdout: Vec<u8>,
    /// Standard error, cut by the runner to what it keeps.
    pub stderr: Vec<u8>,
}

/// A process could not be started or waited for.
#[derive(Debug, thiserror::Error)]
#[error("the command could not be run")]
pub struct RunnerError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Runs the processes of a build.
pub trait Runner {
    /// Runs one command to its end.
    ///
    /// # Errors
    /// [`RunnerError`] if the process could not be started or waited for; a process that ran and failed is an
    /// [`Exit`], not an error.
    fn run(&self, command: &BuildCommand) -> Result<CommandOutput, RunnerError>;
}

impl<F: Fn(&BuildCommand) -> Result<CommandOutput, RunnerError>> Runner for F {
    fn run(&self, command: &BuildCommand) -> Result<CommandOutput, RunnerError> {
        self(command)
    }
}
