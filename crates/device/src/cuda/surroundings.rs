//! What the cuda target finds on this machine, and what stands in its way: facts, and rows that judge them.
//!
//! Reading and judging are apart: [`read`] asks the machine, [`judge`] is pure. Every row that is not good names one
//! fix.

mod judge;
mod read;

pub use judge::judge;
pub use read::{Asked, Places, counters_reserved, read, release_in};

use super::device::GpuIdentity;
use super::nvml::{Foreign, Gpu};
use super::trial::Tried;
use kernelseek_sandbox::programs::Program;
use serde::{Deserialize, Serialize};

/// The driver, as far as it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// There is none.
    Absent,
    /// Something of it is there and does not work, for this reason.
    Broken(String),
    /// It answers.
    Present {
        /// Its version: `580.159.04`.
        version: Option<String>,
        /// CUDA version that it supports.
        cuda: Option<(u32, u32)>,
    },
}

/// A GPU, as the two libraries of the driver see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenGpu {
    /// What NVML says.
    pub facts: Option<Gpu>,
    /// What the driver API says.
    pub identity: Option<GpuIdentity>,
    /// Who else uses it.
    pub foreign: Foreign,
    /// Memory exported to a second process.
    pub share: Tried,
    /// The driver behind the sandbox of a worker.
    pub fenced: Tried,
}

/// `nvcc`, as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvcc {
    /// Where, and what it says.
    pub program: Program,
    /// Its release, major and minor.
    pub release: Option<(u32, u32)>,
}

/// Everything that is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The driver.
    pub driver: Driver,
    /// The GPUs.
    pub gpus: Vec<SeenGpu>,
    /// GPUs that cannot be asked, each with the reason.
    pub unreadable: Vec<String>,
    /// Whether there are device files of the driver.
    pub device_files: bool,
    /// Whether this is Linux on Windows (WSL).
    pub wsl: bool,
    /// The kind of container that this is in.
    pub container: Option<String>,
    /// Whether namespaces can be made without privileges.
    pub namespaces: bool,
    /// The sign of a multi-process service (MPS).
    pub mps: Option<String>,
    /// Whether the performance counters are kept from this user.
    pub counters_reserved: bool,
    /// The kind of network file system that the state folder is on.
    pub network_state: Option<String>,
    /// The CUDA compiler.
    pub nvcc: Option<Nvcc>,
    /// Tools of the toolkit that were looked for: `ncu`, `compute-sanitizer`, `cuobjdump`.
    pub tools: Vec<(String, Option<Program>)>,
    /// Coding agents that were found.
    pub agents: Vec<Program>,
}

/// One line of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What it is about; at most 16 characters.
    pub name: String,
    /// Whether nothing stands in the way.
    pub good: bool,
    /// What was found.
    pub value: String,
    /// What to do about it, where it is not good.
    pub fix: Option<String>,
}
