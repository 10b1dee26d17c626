//! The last step of a worker before a candidate's code is loaded: Landlock, then seccomp.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::SandboxError;
use crate::fences;
use crate::policy::{self, Candidate};
use crate::report::LayerState;
use crate::seccomp::{self, Installed};
use crate::sys;

/// What the candidate's process may still do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockdownSpec {
    /// Paths beneath which it may read, execute and map; those that do not exist are left out.
    pub read: Vec<PathBuf>,
    /// Whether it may start threads.
    pub threads_allowed: bool,
    /// Whether it drives devices through descriptors it holds: all of `ioctl` that reaches no other process,
    /// and code written at run time. Without it only code mapped from files is executed.
    pub devices: bool,
}

/// What is in force.
#[derive(Debug)]
pub struct Lockdown {
    /// Landlock.
    pub landlock: LayerState,
    /// The system-call filter.
    pub seccomp: LayerState,
    /// Whether denied calls will be recorded once the supervisor holds the listener.
    pub denials_recorded: LayerState,
    /// To be sent to the supervisor, and closed here, before the candidate's code is loaded. Until
    /// the supervisor serves it, a denied call waits.
    pub listener: Option<OwnedFd>,
}

/// Paths that a C or C++ runtime reads when it loads a library or starts threads. Add the candidate's folder.
#[must_use]
pub fn runtime_reads() -> Vec<PathBuf> {
    [
        "/usr/lib",
        "/usr/lib32",
        "/usr/lib64",
        "/usr/local/lib",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/proc/self/maps",
        "/proc/self/stat",
        "/proc/self/statm",
        "/proc/self/status",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/stat",
        // The C library asks before it gives a thread's memory back.
        "/proc/sys/vm/overcommit_memory",
        "/sys/devices/system/cpu",
        "/sys/devices/system/node",
    ]
    .map(PathBuf::from)
    .to_vec()
}

/// How many threads the calling process has, if that can be read.
fn own_threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Locks the calling process down for good. Threads that exist already are bound by the filter, but not
/// by Landlock, which the report then says.
///
/// # Errors
/// Only if a ruleset or a filter cannot be built; a kernel that lacks one is a state, not an error.
pub fn apply(spec: &LockdownSpec) -> Result<Lockdown, SandboxError> {
    sys::no_new_privileges().map_err(SandboxError::system("setting no_new_privs"))?;

    let fence = fences::build(&spec.read, &[])?;
    let mut landlock = fence.state;
    if let Some(ruleset) = fence.ruleset {
        match sys::landlock_restrict(ruleset.as_raw_fd()) {
            Ok(()) => {
                if own_threads().is_some_and(|threads| threads > 1) {
                    landlock = landlock.with_gaps(&["threads that existed before are not bound".to_owned()]);
                }
            }
            Err(error) => landlock = LayerState::Unavailable(error.to_string()),
        }
    }

    let own_pid = sys::own_pid().unsigned_abs();
    let policy =
        policy::candidate(Candidate { own_pid, threads: spec.threads_allowed, devices: spec.devices });
    let (seccomp, denials_recorded, listener) = match seccomp::install(&policy)? {
        Installed::Supervised(listener) => (LayerState::Enforced, LayerState::Enforced, Some(listener)),
        Installed::Alone(reason) => (LayerState::Enforced, LayerState::Unavailable(reason), None),
        Installed::Not(reason) => {
            let unrecorded = LayerState::Unavailable("no system-call filter".to_owned());
            (LayerState::Unavailable(reason), unrecorded, None)
        }
    };
    Ok(Lockdown { landlock, seccomp, denials_recorded, listener })
}
