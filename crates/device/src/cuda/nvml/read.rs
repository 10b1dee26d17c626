//! Asking NVML.

use super::foreign::{self, Foreign};
use super::{ComputeMode, Gpu, GpuProcess, Machine, Processes, throttle_words};
use crate::cuda::plain::plain;
use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode as Mode, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError as Answer;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, cuda_driver_version_major, cuda_driver_version_minor};

/// Why NVML does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NvmlError {
    /// The library is not there.
    #[error("libnvidia-ml.so.1 was not found: no NVIDIA driver is installed, or it is not visible here")]
    NoLibrary,
    /// The library is there and does not start.
    #[error("NVML does not start: {0}")]
    Start(String),
    /// There is no such GPU.
    #[error("NVML knows no GPU `{0}`")]
    NoGpu(String),
    /// A question failed.
    #[error("NVML: {0}")]
    Question(String),
}

impl NvmlError {
    /// Whether there is no library at all, as on a machine that has no such GPU.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::NoLibrary)
    }
}

/// The loaded library.
#[derive(Debug)]
pub struct Nvml {
    library: nvml_wrapper::Nvml,
}

fn question(error: &Answer) -> NvmlError {
    NvmlError::Question(error.to_string())
}

impl Nvml {
    /// Loads and starts the library.
    ///
    /// # Errors
    /// When it is not there, or the driver behind it does not answer.
    pub fn open() -> Result<Self, NvmlError> {
        match nvml_wrapper::Nvml::init() {
            Ok(library) => Ok(Self { library }),
            Err(Answer::LibloadingError(error)) if is_missing(&error.to_string()) => {
                Err(NvmlError::NoLibrary)
            }
            Err(error) => Err(NvmlError::Start(error.to_string())),
        }
    }

    /// Everything at this moment.
    ///
    /// # Errors
    /// When the driver does not say how many GPUs there are. One that cannot be asked is a line of the answer.
    pub fn machine(&self) -> Result<Machine, NvmlError> {
        let count = self.library.device_count().map_err(|e| question(&e))?;
        let (mut gpus, mut unreadable) = (Vec::new(), Vec::new());
        for index in 0..count {
            match self.library.device_by_index(index).and_then(|d| facts(&self.library, &d, index)) {
                Ok(gpu) => gpus.push(gpu),
                Err(error) => unreadable.push(format!("GPU {index}: {error}")),
            }
        }
        let cuda = self.library.sys_cuda_driver_version().ok().and_then(|v| {
            let part = |n: i32| u32::try_from(n).ok();
            Some((part(cuda_driver_version_major(v))?, part(cuda_driver_version_minor(v))?))
        });
        let driver = self.library.sys_driver_version().map_err(|e| question(&e))?;
        Ok(Machine { driver: plain(&driver, 40), cuda, gpus, unreadable })
    }

    /// One GPU at this moment.
    ///
    /// # Errors
    /// When there is no such GPU, or it does not answer.
    pub fn gpu(&self, uuid: &str) -> Result<Gpu, NvmlError> {
        let device = self.device(uuid)?;
        let index = device.index().map_err(|e| question(&e))?;
        facts(&self.library, &device, index).map_err(|e| question(&e))
    }

    /// The processes on one GPU at this moment.
    #[must_use]
    pub fn processes(&self, uuid: &str) -> Processes {
        match self.device(uuid) {
            Ok(device) => processes(&self.library, &device),
            Err(error) => Processes::Unknown(error.to_string()),
        }
    }

    /// Whether anybody but `ours` and their descendants computes on one GPU at this moment.
    #[must_use]
    pub fn foreign(&self, uuid: &str, ours: &[u32]) -> Foreign {
        foreign::judge(&self.processes(uuid), ours, foreign::sees_every_process(), &foreign::life_of)
    }

    fn device(&self, uuid: &str) -> Result<Device<'_>, NvmlError> {
        self.library.device_by_uuid(uuid).map_err(|error| match error {
            Answer::NotFound | Answer::InvalidArg => NvmlError::NoGpu(uuid.to_owned()),
            other => question(&other),
        })
    }
}

/// The loader's words for a file that is not there; anything else is a library that is there and broken.
fn is_missing(text: &str) -> bool {
    text.contains("No such file")
}

fn facts(library: &nvml_wrapper::Nvml, device: &Device<'_>, index: u32) -> Result<Gpu, Answer> {
    let memory = device.memory_info().ok();
    let watts = |milliwatts: Result<u32, Answer>| milliwatts.ok().map(|mw| f64::from(mw) / 1000.0);
    Ok(Gpu {
        index,
        name: plain(&device.name()?, 80),
        uuid: plain(&device.uuid()?, 80),
        pci: device.pci_info().ok().map(|p| plain(&p.bus_id, 40)),
        capability: device
            .cuda_compute_capability()
            .ok()
            .and_then(|c| Some((u32::try_from(c.major).ok()?, u32::try_from(c.minor).ok()?))),
        memory_total: memory.as_ref().map(|m| m.total),
        memory_used: memory.as_ref().map(|m| m.used),
        sm_clock_mhz: device.clock_info(Clock::SM).ok(),
        sm_clock_max_mhz: device.max_clock_info(Clock::SM).ok(),
        memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
        memory_clock_max_mhz: device.max_clock_info(Clock::Memory).ok(),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        power_w: watts(device.power_usage()),
        power_limit_w: watts(device.enforced_power_limit()),
        throttle: device.current_throttle_reasons().ok().map(|r| throttle_words(r.bits())),
        persistence: device.is_in_persistent_mode().ok(),
        compute_mode: device.compute_mode().ok().map(|mode| match mode {
            Mode::Default => ComputeMode::Default,
            Mode::ExclusiveThread => ComputeMode::ExclusiveThread,
            Mode::ExclusiveProcess => ComputeMode::ExclusiveProcess,
            Mode::Prohibited => ComputeMode::Prohibited,
        }),
        mig: device.mig_mode().ok().map(|m| m.current != 0),
        ecc: device.is_ecc_enabled().ok().map(|e| e.currently_enabled),
        processes: processes(library, device),
    })
}

fn processes(library: &nvml_wrapper::Nvml, device: &Device<'_>) -> Processes {
    let computing = match device.running_compute_processes() {
        Ok(list) => list,
        Err(error) => return Processes::Unknown(error.to_string()),
    };
    // What draws, and what computes through a server, is in lists of its own that older drivers lack.
    let served = device.mps_running_compute_processes().unwrap_or_default();
    let drawing = device.running_graphics_processes().unwrap_or_default();
    let mut all: Vec<GpuProcess> = Vec::new();
    let tagged = computing.iter().chain(&served).map(|p| (p, true)).chain(drawing.iter().map(|p| (p, false)));
    for (process, compute) in tagged {
        if process.pid == 0 || !all.iter().any(|known| known.pid == process.pid) {
            all.push(one(library, process, compute));
        }
    }
    Processes::Known(all)
}

fn one(library: &nvml_wrapper::Nvml, process: &ProcessInfo, compute: bool) -> GpuProcess {
    let pid = process.pid;
    let own = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let asked = || library.sys_process_name(pid, 64).ok();
    let name = (pid != 0).then(|| own.or_else(asked)).flatten().map(|n| plain(n.trim(), 60));
    let memory = match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    GpuProcess { pid, memory, name: name.filter(|n| !n.is_empty()), compute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_library_says_so() {
        if let Err(error) = Nvml::open() {
            assert!(!error.to_string().is_empty());
            assert!(error.is_absent() || matches!(error, NvmlError::Start(_)), "{error}");
        }
    }

    #[test]
    fn a_missing_library_is_told_from_a_broken_one() {
        assert!(is_missing("libnvidia-ml.so.1: cannot open shared object file: No such file or directory"));
        assert!(!is_missing("libnvidia-ml.so.1: invalid ELF header"));
    }
}
