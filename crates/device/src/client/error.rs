//! What can go wrong with a worker, in words a user can act on.

use crate::arena::MemoryError;
use crate::channel::ChannelError;
use crate::control::Fault;
use crate::protocol::Reply;
use std::time::Duration;

/// How a worker process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// A signal killed it.
    Killed(i32),
    /// It closed its socket but has not ended.
    Silent,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => write!(f, "killed by {}", signal_name(*signal)),
            Self::Silent => f.write_str("closed its connection"),
        }
    }
}

/// Name of a signal.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (invalid memory access)",
        libc::SIGBUS => "SIGBUS (bus error)",
        libc::SIGFPE => "SIGFPE (arithmetic fault)",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSYS => "SIGSYS (bad system call)",
        libc::SIGXCPU => "SIGXCPU (processor time limit)",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// What can go wrong with a worker.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The process could not be started.
    #[error("the worker could not be started")]
    Start(#[source] std::io::Error),
    /// Shared memory was refused.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The process is gone.
    #[error("the worker {ending} before it answered")]
    Died {
        /// How.
        ending: Ending,
        /// Fatal signal it noted, if any.
        fault: Option<Fault>,
    },
    /// It printed more than it may.
    #[error("the worker printed {0} bytes")]
    Flood(u64),
    /// The deadline passed.
    #[error("no answer within {0:.1?}")]
    Deadline(Duration),
    /// The device reports an error; the worker's context on it is lost.
    #[error("{doing}: {text} ({name})")]
    Gpu {
        /// What was being done.
        doing: String,
        /// The driver's number.
        code: u32,
        /// Its name.
        name: String,
        /// What the driver says about it.
        text: String,
    },
    /// A call did not return while its stream was held at the gate: it waits for the device.
    #[error("a call waits for the device before it returns")]
    Synchronises,
    /// The supervisor's own work on the GPU failed.
    #[error("the GPU refused the supervisor's work")]
    Supervisor(#[from] crate::cuda::CudaError),
    /// The worker could not serve the request.
    #[error("{0}")]
    Refused(String),
    /// The worker answered something else than asked.
    #[error("the worker answered `{got}` where `{wanted}` was due")]
    Unexpected {
        /// What was due.
        wanted: &'static str,
        /// What came.
        got: String,
    },
    /// The connection failed.
    #[error("the connection to the worker failed")]
    Channel(#[from] ChannelError),
    /// A process could not be controlled.
    #[error("the worker's process could not be controlled")]
    Control(#[from] kernelseek_sandbox::SandboxError),
}

impl DeviceError {
    pub(super) fn unexpected(wanted: &'static str, got: &Reply) -> Self {
        let text = format!("{got:?}");
        Self::Unexpected { wanted, got: text.chars().take(80).collect() }
    }
}
