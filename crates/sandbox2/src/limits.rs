//! Resource limits.

use crate::SandboxError;
use serde::{Deserialize, Serialize};

/// Limits of a process; `None` leaves one as it is. No core files are ever written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Address space, bytes.
    pub address_space: Option<u64>,
    /// Processor time, seconds.
    pub cpu_seconds: Option<u64>,
    /// Largest file it may write, bytes.
    pub file_size: Option<u64>,
    /// Descriptors.
    pub open_files: Option<u64>,
    /// Processes and threads of its user.
    pub processes: Option<u64>,
}

/// Applies limits to the calling process.
///
/// # Errors
/// When the system refuses one.
#[expect(unsafe_code, reason = "setrlimit")]
pub fn apply(limits: &Limits) -> Result<(), SandboxError> {
    let all = [
        (libc::RLIMIT_AS, limits.address_space),
        (libc::RLIMIT_CPU, limits.cpu_seconds),
        (libc::RLIMIT_FSIZE, limits.file_size),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_NPROC, limits.processes),
        (libc::RLIMIT_CORE, Some(0)),
    ];
    for (resource, value) in all {
        let Some(value) = value else { continue };
        let mut known = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls take a pointer to a live struct.
        unsafe {
            if libc::getrlimit(resource, &raw mut known) != 0 {
                return Err(SandboxError::last("getrlimit"));
            }
            // A limit that is already tighter stays.
            let value = value.min(known.rlim_max);
            let wanted = libc::rlimit { rlim_cur: value, rlim_max: value };
            if libc::setrlimit(resource, &raw const wanted) != 0 {
                return Err(SandboxError::last("setrlimit"));
            }
        }
    }
    Ok(())
}
