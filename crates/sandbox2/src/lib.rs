//! Processes under namespaces, Landlock, seccomp, resource limits and deadlines.
//!
//! Duty: run code that is not trusted so that it can do arithmetic and nothing else, record what it tried, and say
//! which layers are in force. Nothing is skipped silently: a layer that the machine refuses is in the report.

pub mod command;
pub mod limits;
pub mod lockdown;
pub mod monitor;
pub mod namespaces;
pub mod process;
pub mod report;
mod seccomp;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A system call failed.
    #[error("{what} failed")]
    System {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A filter could not be made.
    #[error("the seccomp filter could not be made")]
    Filter(#[source] seccompiler::BackendError),
    /// A process could not be started.
    #[error("{program} could not be started")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A process is gone.
    #[error("process {0} is gone")]
    Gone(u32),
}

impl SandboxError {
    /// The last error of the operating system, from `what`.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::System { what, source: std::io::Error::last_os_error() }
    }
}
