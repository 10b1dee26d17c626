//! Resource limits of the calling process.

use serde::{Deserialize, Serialize};

use crate::report::LayerState;
use crate::sys;

/// Limits of one process; `None` leaves a limit as it is. A limit above the hard limit in force is
/// lowered to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of address space. A CUDA context needs far more than memory: leave it unset there.
    pub address_space: Option<u64>,
    /// Seconds of CPU time of the process, all threads together.
    pub cpu_seconds: Option<u64>,
    /// Bytes of the largest file it may write; memory files count, pipes do not.
    pub file_size: Option<u64>,
    /// Bytes of a core dump.
    pub core: Option<u64>,
    /// Open descriptors.
    pub open_files: Option<u64>,
    /// Processes and threads of the user in this user namespace. Without a user namespace everything
    /// else the user runs counts too, and the superuser is exempt.
    pub processes: Option<u64>,
}

impl Default for Limits {
    /// No core dumps; everything else as it is.
    fn default() -> Self {
        Self {
            address_space: None,
            cpu_seconds: None,
            file_size: None,
            core: Some(0),
            open_files: None,
            processes: None,
        }
    }
}

impl Limits {
    /// The limits that are set, as (name, resource, value).
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, libc::c_int, u64)> {
        // The type of the constants differs between C libraries.
        [
            ("address space", libc::RLIMIT_AS as libc::c_int, self.address_space),
            ("cpu seconds", libc::RLIMIT_CPU as libc::c_int, self.cpu_seconds),
            ("file size", libc::RLIMIT_FSIZE as libc::c_int, self.file_size),
            ("core", libc::RLIMIT_CORE as libc::c_int, self.core),
            ("open files", libc::RLIMIT_NOFILE as libc::c_int, self.open_files),
            ("processes", libc::RLIMIT_NPROC as libc::c_int, self.processes),
        ]
        .into_iter()
        .filter_map(|(name, resource, value)| value.map(|value| (name, resource, value)))
    }
}

/// Applies the limits to the calling process and its future children.
#[must_use]
pub fn apply(limits: &Limits) -> LayerState {
    let gaps: Vec<String> = limits
        .entries()
        .filter_map(|(name, resource, value)| {
            sys::set_limit(resource, value).err().map(|error| format!("{name}: {error}"))
        })
        .collect();
    LayerState::from_gaps(&gaps)
}
