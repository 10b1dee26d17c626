//! One GPU and this process's context on it.

use super::error::{CudaError, Result, check};
use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute, CUlimit, CUuuid};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char};

/// Whether the driver library can be loaded. Nothing else of this module may be called where it cannot.
#[must_use]
pub fn present() -> bool {
    use std::sync::OnceLock;
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // SAFETY: loads libcuda and drops it again; its initialisers are the vendor's.
        #[expect(unsafe_code, reason = "dlopen")]
        unsafe {
            sys::is_culib_present()
        }
    })
}

/// What the driver reads while it starts and works, beside the usual library folders: where it lies itself, and what the
/// kernel says about its devices.
#[must_use]
pub fn driver_reads() -> Vec<std::path::PathBuf> {
    let mut reads: Vec<std::path::PathBuf> = [
        "/etc/nvidia",
        "/usr/share/nvidia",
        "/sys/bus/pci",
        "/sys/devices",
        "/sys/module",
        "/proc/driver/nvidia",
    ]
    .map(Into::into)
    .to_vec();
    if present() {
        // Loaded for good, so that its place can be read off the map.
        // SAFETY: the library is there (asked just before); its initialisers are the vendor's.
        #[expect(unsafe_code, reason = "dlopen")]
        let _ = unsafe { sys::culib() };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let folders = maps
            .lines()
            .filter_map(|line| line.split_once('/').map(|(_, rest)| format!("/{rest}")))
            .filter(|path| path.contains("libcuda.so"))
            .filter_map(|path| std::path::Path::new(&path).parent().map(std::path::Path::to_owned));
        reads.extend(folders);
    }
    reads.sort();
    reads.dedup();
    reads
}

/// What identifies a GPU and what code for it must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuIdentity {
    /// Model, as the driver names it: `NVIDIA H200`.
    pub name: String,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Second-level cache in bytes.
    pub l2_bytes: usize,
    /// Most bytes of the second-level cache that may be set aside for persisting accesses; 0 where there is no such thing.
    pub persisting_l2_bytes: usize,
    /// Device memory in bytes.
    pub memory_bytes: usize,
    /// Highest clock of the multiprocessors, kHz.
    pub sm_clock_khz: u32,
    /// CUDA version that the driver supports: 13000 is 13.0.
    pub driver_cuda: u32,
}

impl GpuIdentity {
    /// The architecture that code for this GPU is compiled for: `sm_90a`. From 9.0 on the `a` variants carry the
    /// instructions of exactly this architecture.
    #[must_use]
    pub fn arch(&self) -> String {
        let (major, minor) = self.capability;
        let suffix = if major >= 9 { "a" } else { "" };
        format!("sm_{major}{minor}{suffix}")
    }
}

/// Starts the driver in this process.
///
/// # Errors
/// When there is no driver or it cannot start (no device file, no kernel module, a fence in the way).
#[expect(unsafe_code, reason = "driver call")]
pub fn init() -> Result<()> {
    if !present() {
        return Err(CudaError::NoDriver);
    }
    // SAFETY: the library is present; the flag word must be 0.
    check("cuInit", unsafe { sys::cuInit(0) })
}

/// Every GPU that this process sees, by ordinal.
///
/// # Errors
/// When the driver does not start.
pub fn list() -> Result<Vec<GpuIdentity>> {
    init()?;
    (0..count()?).map(|ordinal| identity(handle(ordinal)?)).collect()
}

#[expect(unsafe_code, reason = "driver call")]
fn count() -> Result<i32> {
    let mut count = 0;
    // SAFETY: writes one integer.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(count)
}

#[expect(unsafe_code, reason = "driver call")]
fn handle(ordinal: i32) -> Result<CUdevice> {
    let mut device = 0;
    // SAFETY: writes one handle.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
    Ok(device)
}

#[expect(unsafe_code, reason = "driver calls")]
fn identity(device: CUdevice) -> Result<GpuIdentity> {
    use CUdevice_attribute as A;
    let attribute = |which: CUdevice_attribute| -> Result<i32> {
        let mut value = 0;
        // SAFETY: writes one integer.
        check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) })?;
        Ok(value)
    };
    let mut name = [0 as c_char; 128];
    // SAFETY: writes at most the given length, NUL-terminated.
    check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) })?;
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: writes one structure.
    check("cuDeviceGetUuid_v2", unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, device) })?;
    let mut memory = 0;
    // SAFETY: writes one integer.
    check("cuDeviceTotalMem_v2", unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, device) })?;
    let mut driver = 0;
    // SAFETY: writes one integer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut driver) })?;
    // SAFETY: NUL-terminated by the driver, and zeroed before.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let size = |which| attribute(which).map(|v| usize::try_from(v).unwrap_or(0));
    Ok(GpuIdentity {
        name,
        uuid: uuid_text(&uuid.bytes.map(|b| b as u8)),
        capability: (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        l2_bytes: size(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        persisting_l2_bytes: size(A::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE).unwrap_or(0),
        memory_bytes: memory,
        sm_clock_khz: attribute(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as u32,
        driver_cuda: driver as u32,
    })
}

/// `GPU-` and the sixteen bytes in the usual groups.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// This process's primary context on one GPU, current on the calling thread. A context belongs to one thread of this
/// crate at a time; libraries in the same process that use the runtime API share it.
#[derive(Debug)]
pub struct Context {
    device: CUdevice,
    context: CUcontext,
    identity: GpuIdentity,
}

impl Context {
    /// Opens the GPU with this UUID, or the one with this ordinal, or the first.
    ///
    /// # Errors
    /// When there is no such device or the driver refuses a context on it.
    #[expect(unsafe_code, reason = "driver calls")]
    pub fn open(which: Option<&str>) -> Result<Self> {
        init()?;
        let count = count()?;
        let wanted = which.unwrap_or("0");
        let mut found = None;
        for ordinal in 0..count {
            let device = handle(ordinal)?;
            let identity = identity(device)?;
            if identity.uuid == wanted || ordinal.to_string() == wanted {
                found = Some((device, identity));
                break;
            }
        }
        let (device, identity) = found.ok_or_else(|| CudaError::NoDevice(wanted.to_owned()))?;
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut context, device)
        })?;
        let opened = Self { device, context, identity };
        opened.make_current()?;
        Ok(opened)
    }

    /// Makes the context current on the calling thread.
    ///
    /// # Errors
    /// When the driver refuses.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn make_current(&self) -> Result<()> {
        // SAFETY: a live context.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// What the GPU is.
    #[must_use]
    pub const fn identity(&self) -> &GpuIdentity {
        &self.identity
    }

    /// Waits for everything that this context was given, on every stream.
    ///
    /// # Errors
    /// Whatever went wrong on the device since the last look.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: no arguments; the context is current.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    /// Free and total device memory in bytes.
    ///
    /// # Errors
    /// When the driver refuses.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn free_memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two integers.
        check("cuMemGetInfo_v2", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free, total))
    }

    /// Gives every persisting line of the second-level cache back and takes the carve-out away, as far as this
    /// context reaches.
    ///
    /// # Errors
    /// When the driver refuses.
    #[expect(unsafe_code, reason = "driver calls")]
    pub fn reset_persisting_l2(&self) -> Result<()> {
        if self.identity.persisting_l2_bytes == 0 {
            return Ok(());
        }
        // SAFETY: plain integers; the context is current.
        unsafe {
            check("cuCtxSetLimit", sys::cuCtxSetLimit(CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0))?;
            check("cuCtxResetPersistingL2Cache", sys::cuCtxResetPersistingL2Cache())
        }
    }
}

impl Drop for Context {
    #[expect(unsafe_code, reason = "driver call")]
    fn drop(&mut self) {
        // SAFETY: retained once by `open`. A failure at the end of a process means that the driver is gone already.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_the_driver_tools_do() {
        let bytes = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(uuid_text(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn architectures_carry_their_suffix() {
        let gpu = |capability| GpuIdentity {
            name: "x".into(),
            uuid: "y".into(),
            capability,
            multiprocessors: 1,
            l2_bytes: 1,
            persisting_l2_bytes: 0,
            memory_bytes: 1,
            sm_clock_khz: 1,
            driver_cuda: 13000,
        };
        for (capability, arch) in [
            ((8, 0), "sm_80"),
            ((8, 9), "sm_89"),
            ((9, 0), "sm_90a"),
            ((10, 0), "sm_100a"),
            ((12, 0), "sm_120a"),
        ] {
            assert_eq!(gpu(capability).arch(), arch);
        }
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        if !present() {
            assert_eq!(init(), Err(CudaError::NoDriver));
            assert!(list().is_err());
        }
    }
}
