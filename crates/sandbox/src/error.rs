//! What can go wrong in this crate.

use std::io;

/// An error of the sandbox. A layer that the machine does not offer is *not* an error: it is a
/// [`LayerState`](crate::LayerState).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A system call that must work did not.
    #[error("{operation} failed")]
    System {
        /// What was attempted.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}")]
    Spawn {
        /// The program asked for.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The Landlock ruleset could not be built.
    #[error("cannot build the landlock ruleset")]
    Ruleset(#[from] landlock::RulesetError),
    /// A path or argument holds a NUL byte.
    #[error("{0:?} holds a nul byte")]
    Nul(String),
    /// A process did not stop in time.
    #[error("process {pid} did not stop within {limit_ms} ms")]
    NotStopped {
        /// The process.
        pid: u32,
        /// The time allowed, in milliseconds.
        limit_ms: u64,
    },
    /// The process is gone.
    #[error("process {0} is gone")]
    Gone(u32),
    /// The peer closed the socket before a descriptor arrived.
    #[error("the peer closed the socket before a descriptor arrived")]
    NoDescriptor,
    /// A throwaway process ended without a readable report.
    #[error("the probe ended without a report")]
    NoReport,
}

impl SandboxError {
    /// The last error of the system, with what was attempted.
    pub(crate) fn last(operation: &'static str) -> Self {
        Self::System { operation, source: io::Error::last_os_error() }
    }

    /// For `map_err`: attaches what was attempted.
    pub(crate) fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }
}
