//! A session's hold on a GPU: the lease that keeps other evaluations away, the open device, and who else is on it.

use crate::event::{Event, Sink};
use crate::session::{Session, SessionError};
use crate::settings::Settings;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::problem::Target;
use kernelseek_device::cuda::gpu::Gpu;
use kernelseek_device::cuda::lease::{Claim, Lease, LeaseError, Leases, now_ms};
use kernelseek_device::cuda::nvml::{self, Foreign, GpuProcess, Nvml};
use kernelseek_device::cuda::{CudaError, GpuIdentity, device};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// How long an evaluation waits for a GPU that somebody else holds.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long an evaluation is meant to last: longer, and those who wait read that it is overdue.
const LASTS: Duration = Duration::from_secs(1800);

/// Why a GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// The driver says so.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// Somebody else holds it, or leases cannot be kept on this machine.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

impl GpuError {
    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Cuda(CudaError::NoDriver) => {
                "install the NVIDIA driver, or give the container its devices (`--gpus all`); `kernelseek doctor` says more"
            }
            Self::Cuda(CudaError::NoDevice(_)) => "`kernelseek gpu` lists the GPUs that there are",
            Self::Cuda(CudaError::TooOld(_)) => "install a newer NVIDIA driver",
            Self::Cuda(CudaError::Call { .. }) => "run `kernelseek doctor`",
            Self::Lease(LeaseError::Held(_)) => {
                "wait for it, or name another GPU with `--gpu`; `kernelseek gpu` lists them"
            }
            Self::Lease(_) => "make the folder usable, or remove it: it is made again",
        }
    }
}

/// The GPU that is meant: the first that the driver shows, or the one with this number, UUID or beginning of a UUID. Numbers
/// are NVML's, as `kernelseek gpu` and the driver's own tools count; the driver itself may count in another order.
fn chosen(
    shown: Vec<GpuIdentity>,
    wanted: Option<&str>,
    nvml: Option<&Nvml>,
) -> Result<GpuIdentity, CudaError> {
    let unknown = || CudaError::NoDevice(wanted.unwrap_or("0").to_owned());
    let machine = wanted.and(nvml).and_then(|nvml| nvml.machine().ok());
    let uuid = match (wanted, &machine) {
        (None, _) => return shown.into_iter().next().ok_or_else(unknown),
        (Some(_), Some(machine)) => {
            nvml::choose(&machine.gpus, wanted, None).map(|gpu| gpu.uuid.clone()).map_err(|_| unknown())?
        }
        (Some(wanted), None) => {
            let numbered = shown.iter().enumerate().find(|(number, _)| number.to_string() == wanted);
            numbered.map_or_else(|| wanted.to_owned(), |(_, gpu)| gpu.uuid.clone())
        }
    };
    shown.into_iter().find(|gpu| gpu.uuid == uuid).ok_or_else(unknown)
}

/// A GPU that this session holds.
#[derive(Debug)]
pub struct GpuHold {
    gpu: Rc<Gpu>,
    nvml: Option<Nvml>,
    _lease: Lease,
}

impl GpuHold {
    /// Waits for the lease and opens the GPU.
    ///
    /// # Errors
    /// When there is no usable GPU, or somebody else does not let go of it.
    pub fn take(settings: &Settings, what: &str, sink: &mut dyn Sink) -> Result<Self, GpuError> {
        let nvml = Nvml::open().ok();
        // Known before it is opened: a context on it would disturb whoever holds it.
        let identity = chosen(device::list()?, settings.gpu.as_deref(), nvml.as_ref())?;
        let claim = Claim {
            command: format!("kernelseek {what}"),
            lasts: Some(LASTS),
            within: settings.gpu_lease.clone(),
        };
        let leases = settings.gpu_leases.as_deref().map_or_else(Leases::shared, Leases::at)?;
        let lease = leases.acquire(&identity.uuid, &claim, Some(PATIENCE), &mut |holder| {
            sink.on(&Event::WaitingForGpu { holder: holder.describe(now_ms()) });
        })?;
        let gpu = Gpu::open(Some(&identity.uuid))?;
        Ok(Self { gpu, nvml, _lease: lease })
    }

    /// The GPU.
    #[must_use]
    pub const fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }

    /// What it is.
    #[must_use]
    pub fn identity(&self) -> GpuIdentity {
        self.gpu.identity().clone()
    }

    /// Version of the driver and the facts of the moment, for records.
    #[must_use]
    pub fn facts(&self) -> Option<serde_json::Value> {
        let machine = self.nvml.as_ref()?.machine().ok()?;
        let gpu = machine.gpus.iter().find(|g| g.uuid == self.gpu.identity().uuid)?;
        Some(serde_json::json!({ "driver": machine.driver, "cuda": machine.cuda, "gpu": gpu }))
    }

    /// What another process on the GPU means for the times.
    #[must_use]
    pub fn foreign(&self) -> Option<Finding> {
        let seen = self.nvml.as_ref()?.foreign(&self.gpu.identity().uuid, &[std::process::id()]);
        let Foreign::Seen(processes) = seen else { return None };
        let mut finding = Finding::new("timed.foreign", Severity::Unproven, "another process uses the GPU");
        finding.evidence = processes.iter().take(4).map(GpuProcess::describe).collect();
        Some(finding.with_next(
            "end it or wait for it, then evaluate again; `kernelseek gpu -- CMD` keeps commands apart",
        ))
    }
}

impl Session {
    /// The GPU that the problem's calls run on, taken when it is first needed; `None` for a problem of the CPU.
    ///
    /// # Errors
    /// When there is no usable GPU.
    pub fn gpu(&mut self, sink: &mut dyn Sink) -> Result<Option<Rc<Gpu>>, SessionError> {
        if self.files.problem.target == Target::Cpu {
            return Ok(None);
        }
        if self.gpu.is_none() {
            let what = format!("eval {}", self.candidate_name());
            let hold = GpuHold::take(&self.settings, &what, sink);
            self.gpu = Some(Rc::new(hold.map_err(|e| SessionError::Gpu(Box::new(e)))?));
        }
        Ok(self.gpu.as_ref().map(|hold| hold.gpu().clone()))
    }
    /// The hold on the GPU, once it is taken.
    #[must_use]
    pub fn gpu_hold(&self) -> Option<&GpuHold> {
        self.gpu.as_deref()
    }
    /// Architectures that GPU code is compiled for: those that were named, or the opened GPU's.
    pub(crate) fn archs(&self) -> Vec<String> {
        if self.settings.archs.is_empty() {
            return self.gpu.iter().map(|hold| hold.identity().arch()).collect();
        }
        self.settings.archs.clone()
    }
    /// Folder of the CUDA runtime library that kernels are linked with; none for a problem of the CPU.
    #[must_use]
    pub fn cuda_libraries(&self) -> Vec<PathBuf> {
        if self.files.problem.target == Target::Cpu {
            return Vec::new();
        }
        self.toolchain().nvcc().map(|nvcc| nvcc.runtime.folder().to_owned()).into_iter().collect()
    }
    /// What the opened GPU is.
    #[must_use]
    pub fn gpu_identity(&self) -> Option<GpuIdentity> {
        self.gpu.as_deref().map(GpuHold::identity)
    }
}
