//! What can go wrong in this crate.

use std::io;
use std::path::PathBuf;

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
    /// A path that an agent may write, or that is protected from it, cannot be resolved.
    #[error("cannot resolve {}", path.display())]
    Path {
        /// The path as it was given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A path that the agent may write reaches one that must stay as it is, or the other way round.
    #[error("{} may be written and reaches {}, which is protected", write.display(), protect.display())]
    Overlap {
        /// The path that may be written.
        write: PathBuf,
        /// The protected path.
        protect: PathBuf,
    },
    /// A file that the agent may write is a hard link to a protected one: the same bytes under two names.
    #[error("{} may be written and is a hard link to {}, which is protected", link.display(), protect.display())]
    Linked {
        /// The name beneath a path that may be written.
        link: PathBuf,
        /// The protected name.
        protect: PathBuf,
    },
    /// The process that keeps an agent together is gone, so what the agent started can no longer be found.
    #[error("the keeper of the agent is gone: processes that the agent started may still run")]
    KeeperLost,
    /// Processes of an agent outlived the order to end.
    #[error("{alive} processes of the agent still run {limit_ms} ms after the order to end")]
    NotLeft {
        /// How many were seen at last.
        alive: usize,
        /// The time allowed, in milliseconds.
        limit_ms: u64,
    },
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
