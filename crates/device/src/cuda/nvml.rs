//! What the driver says about GPUs and about who uses them, through NVML.
//!
//! The library is loaded when it is asked for. A machine without it is a state that has a reason, not a failure. Facts
//! are plain values; [`judge`] does no I/O.

mod foreign;
mod read;
mod words;

pub use foreign::{Foreign, Life, judge, life_of, sees_every_process};
pub use read::{Nvml, NvmlError};
pub use words::throttle_words;

use serde::{Deserialize, Serialize};

/// Everything that NVML says at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Version of the driver: `580.159.04`.
    pub driver: String,
    /// CUDA version that the driver supports, major and minor.
    pub cuda: Option<(u32, u32)>,
    /// The GPUs, in the order of their PCI ids.
    pub gpus: Vec<Gpu>,
    /// GPUs that are there and cannot be asked, each with the reason.
    pub unreadable: Vec<String>,
}

/// One GPU at one moment. What a GPU does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Number in the order of the PCI ids, as `nvidia-smi` counts.
    pub index: u32,
    /// Model.
    pub name: String,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    /// PCI id: domain, bus, device.
    pub pci: Option<String>,
    /// Compute capability.
    pub capability: Option<(u32, u32)>,
    /// Device memory in bytes.
    pub memory_total: Option<u64>,
    /// Device memory in use, in bytes, reserved memory left out.
    pub memory_used: Option<u64>,
    /// Clock of the multiprocessors now, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Highest clock of the multiprocessors, MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Clock of the memory now, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Highest clock of the memory, MHz.
    pub memory_clock_max_mhz: Option<u32>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power drawn now, watts.
    pub power_w: Option<f64>,
    /// Power limit in force, watts.
    pub power_limit_w: Option<f64>,
    /// Why the clocks are not higher, in words; empty when nothing holds them back.
    pub throttle: Option<Vec<String>>,
    /// Whether the driver stays loaded without users.
    pub persistence: Option<bool>,
    /// Who may have a context.
    pub compute_mode: Option<ComputeMode>,
    /// Whether the GPU is divided into instances (MIG).
    pub mig: Option<bool>,
    /// Whether memory errors are corrected (ECC).
    pub ecc: Option<bool>,
    /// The processes on it.
    pub processes: Processes,
}

/// Who may have a context on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    /// Everybody.
    Default,
    /// One process at a time.
    ExclusiveProcess,
    /// One thread at a time; drivers no longer offer it.
    ExclusiveThread,
    /// Nobody.
    Prohibited,
}

/// The processes on a GPU, as far as the driver tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Processes {
    /// These.
    Known(Vec<GpuProcess>),
    /// The driver does not say, for this reason.
    Unknown(String),
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Its id, as the driver counts; 0 where it hides it.
    pub pid: u32,
    /// Device memory that it uses, in bytes.
    pub memory: Option<u64>,
    /// Its name, if it can be read.
    pub name: Option<String>,
    /// Whether it computes; otherwise it draws.
    pub compute: bool,
}

impl GpuProcess {
    /// `process 1234 (python)`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("process {} ({name})", self.pid),
            None => format!("process {}", self.pid),
        }
    }
}

/// Why no GPU was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There is none.
    #[error("there is no GPU")]
    None,
    /// None has this name.
    #[error("there is no GPU `{wanted}`; there are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Number and UUID of each that there is.
        known: Vec<String>,
    },
    /// Several begin with it.
    #[error("`{0}` is the beginning of several UUIDs")]
    Ambiguous(String),
}

/// The GPU that `wanted` names: a number, a UUID, or the beginning of one. Without a wish it is the first of
/// `visible`, which is what `CUDA_VISIBLE_DEVICES` holds, or else the first.
///
/// # Errors
/// When there is no such GPU.
pub fn choose<'a>(
    gpus: &'a [Gpu],
    wanted: Option<&str>,
    visible: Option<&str>,
) -> Result<&'a Gpu, ChoiceError> {
    let first_visible = || visible.and_then(|list| list.split(',').next()).map(str::trim);
    let Some(wanted) = wanted.or_else(first_visible) else {
        return gpus.first().ok_or(ChoiceError::None);
    };
    let unknown = || ChoiceError::Unknown {
        wanted: wanted.to_owned(),
        known: gpus.iter().map(|g| format!("{} {}", g.index, g.uuid)).collect(),
    };
    if gpus.is_empty() {
        return Err(ChoiceError::None);
    }
    if let Ok(index) = wanted.parse::<u32>() {
        return gpus.iter().find(|g| g.index == index).ok_or_else(unknown);
    }
    let lower = wanted.to_ascii_lowercase();
    let mut found =
        gpus.iter().filter(|g| lower.len() > 4 && g.uuid.to_ascii_lowercase().starts_with(&lower));
    match (found.next(), found.next()) {
        (Some(gpu), None) => Ok(gpu),
        (Some(_), Some(_)) => Err(ChoiceError::Ambiguous(wanted.to_owned())),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A GPU as a fake.
    pub(crate) fn gpu(index: u32, uuid: &str) -> Gpu {
        Gpu {
            index,
            name: "NVIDIA H200".into(),
            uuid: uuid.into(),
            pci: Some("00000000:19:00.0".into()),
            capability: Some((9, 0)),
            memory_total: Some(150 << 30),
            memory_used: Some(1 << 30),
            sm_clock_mhz: Some(345),
            sm_clock_max_mhz: Some(1980),
            memory_clock_mhz: Some(3201),
            memory_clock_max_mhz: Some(3201),
            temperature_c: Some(31),
            power_w: Some(76.5),
            power_limit_w: Some(700.0),
            throttle: Some(Vec::new()),
            persistence: Some(true),
            compute_mode: Some(ComputeMode::Default),
            mig: Some(false),
            ecc: Some(true),
            processes: Processes::Known(Vec::new()),
        }
    }

    #[test]
    fn a_gpu_is_chosen_by_number_uuid_beginning_or_what_is_visible() {
        let gpus = [gpu(0, "GPU-aaaa1111-0"), gpu(1, "GPU-aaaa2222-0"), gpu(2, "GPU-bbbb3333-0")];
        let chosen = |wanted, visible| choose(&gpus, wanted, visible).map(|g| g.index);
        assert_eq!(chosen(None, None), Ok(0));
        assert_eq!(chosen(Some("2"), None), Ok(2));
        assert_eq!(chosen(Some("GPU-aaaa2222-0"), None), Ok(1));
        assert_eq!(chosen(Some("gpu-BBBB"), None), Ok(2));
        assert_eq!(chosen(None, Some("1,0")), Ok(1));
        assert_eq!(chosen(None, Some("GPU-bbbb3333-0")), Ok(2));
        assert_eq!(chosen(Some("0"), Some("1")), Ok(0), "a wish goes first");
        assert_eq!(chosen(Some("GPU-aaaa"), None), Err(ChoiceError::Ambiguous("GPU-aaaa".into())));
        for bad in ["3", "GPU-", "", "H200", "GPU-cccc"] {
            let error = chosen(Some(bad), None).unwrap_err();
            assert!(error.to_string().contains("2 GPU-bbbb3333-0"), "{error}");
        }
        assert_eq!(choose(&[], None, None).unwrap_err(), ChoiceError::None);
        assert_eq!(choose(&[], Some("0"), None).unwrap_err(), ChoiceError::None);
    }
}
