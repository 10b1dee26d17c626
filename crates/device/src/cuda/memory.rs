//! Device memory: private, exported to another process, or opened from one.

use super::error::{Result, check};
use super::stream::Stream;
use cudarc::driver::sys::{self, CUdeviceptr, CUipcMem_flags, CUipcMemHandle};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Granule of exported memory. An IPC handle shows the whole 2 MiB granules that its allocation lies in, so an exported
/// allocation is made of whole ones and shows nothing but itself.
pub const GRANULE: usize = 2 << 20;

/// An address in device memory.
pub type Address = u64;

/// What another process opens an exported allocation with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpcHandle {
    /// The driver's 64 bytes, in two halves because that is as long as arrays are serialised.
    #[serde(rename = "handle")]
    pub halves: [[u8; 32]; 2],
    /// Bytes of the allocation.
    pub bytes: usize,
}

/// How a piece of memory came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Allocated,
    Opened,
}

/// A piece of device memory.
#[derive(Debug)]
pub struct DeviceMemory {
    address: CUdeviceptr,
    bytes: usize,
    origin: Origin,
}

impl DeviceMemory {
    /// Allocates `bytes` (at least one), not zeroed.
    ///
    /// # Errors
    /// When the device has no such memory.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1);
        let mut address = 0;
        // SAFETY: writes one address; a context is current.
        check("cuMemAlloc_v2", unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) })?;
        Ok(Self { address, bytes, origin: Origin::Allocated })
    }

    /// Allocates memory that may be exported: whole granules of its own.
    ///
    /// # Errors
    /// When the device has no such memory.
    pub fn exportable(bytes: usize) -> Result<Self> {
        Self::new(bytes.max(1).next_multiple_of(GRANULE))
    }

    /// The handle that another process opens this allocation with.
    ///
    /// # Errors
    /// When the driver offers no IPC here (WSL2, some containers).
    #[expect(unsafe_code, reason = "driver call")]
    pub fn export(&self) -> Result<IpcHandle> {
        let mut handle = CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: writes one structure; the address was allocated by `new`.
        check("cuIpcGetMemHandle", unsafe { sys::cuIpcGetMemHandle(&raw mut handle, self.address) })?;
        let bytes = handle.reserved.map(|b| b as u8);
        let mut halves = [[0; 32]; 2];
        halves[0].copy_from_slice(&bytes[..32]);
        halves[1].copy_from_slice(&bytes[32..]);
        Ok(IpcHandle { halves, bytes: self.bytes })
    }

    /// Opens what another process exported.
    ///
    /// # Errors
    /// When the handle is no longer good, or this process made it itself.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn open(handle: &IpcHandle) -> Result<Self> {
        let mut raw = CUipcMemHandle { reserved: [0; 64] };
        for (to, from) in raw.reserved.iter_mut().zip(handle.halves.as_flattened()) {
            *to = *from as std::ffi::c_char;
        }
        let mut address = 0;
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: writes one address; the driver checks the handle.
        check("cuIpcOpenMemHandle_v2", unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut address, raw, flags) })?;
        Ok(Self { address, bytes: handle.bytes, origin: Origin::Opened })
    }

    /// First byte.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }
    /// Size in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }
    /// Whether there is no byte (there always is one).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for DeviceMemory {
    #[expect(unsafe_code, reason = "driver calls")]
    fn drop(&mut self) {
        // SAFETY: obtained by the call that these undo. After a sticky error the driver refuses; the context is lost then.
        unsafe {
            let _ = match self.origin {
                Origin::Allocated => sys::cuMemFree_v2(self.address),
                Origin::Opened => sys::cuIpcCloseMemHandle(self.address),
            };
        }
    }
}

/// Copies host bytes to `to` and waits until the source may be reused. The caller says that `to` has room.
///
/// # Errors
/// What the driver says.
#[expect(unsafe_code, reason = "driver call")]
pub fn upload(to: Address, bytes: &[u8], stream: &Stream) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    // SAFETY: the source is a live slice; an address that is no device memory is answered with an error. Pageable memory is
    // staged before the call returns.
    check("cuMemcpyHtoDAsync_v2", unsafe {
        sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), stream.raw())
    })
}

/// Copies device bytes into `bytes` and waits for them.
///
/// # Errors
/// What the driver says, also about earlier work of the stream.
#[expect(unsafe_code, reason = "driver call")]
pub fn download(bytes: &mut [u8], from: Address, stream: &Stream) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    // SAFETY: the target is a live slice that outlives the synchronisation below.
    let answer =
        unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), from, bytes.len(), stream.raw()) };
    // A copy to pageable memory waits for everything before it.
    stream.note_wait(start.elapsed());
    check("cuMemcpyDtoHAsync_v2", answer)?;
    stream.synchronize()
}

/// Copies within device memory, in the stream's order.
///
/// # Errors
/// What the driver says.
#[expect(unsafe_code, reason = "driver call")]
pub fn copy(to: Address, from: Address, bytes: usize, stream: &Stream) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: plain addresses, checked by the device.
    check("cuMemcpyDtoDAsync_v2", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()) })
}

/// Sets device bytes, in the stream's order.
///
/// # Errors
/// What the driver says.
#[expect(unsafe_code, reason = "driver call")]
pub fn set(to: Address, value: u8, bytes: usize, stream: &Stream) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: plain addresses, checked by the device.
    check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to, value, bytes, stream.raw()) })
}

/// Has the device's memory pool made, by taking memory from it and giving it back in the stream's order, and has it keep
/// what is given back: giving it to the driver at every synchronisation takes time, and in a worker would be timed as
/// somebody's work.
///
/// # Errors
/// What the driver says.
#[expect(unsafe_code, reason = "driver calls")]
pub fn start_pool(stream: &Stream) -> Result<()> {
    let pool = default_pool()?;
    let mut keep = u64::MAX;
    // SAFETY: reads one number.
    unsafe {
        check(
            "cuMemPoolSetAttribute",
            sys::cuMemPoolSetAttribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            ),
        )?;
    }
    let address = from_pool(GRANULE, stream)?;
    to_pool(address, stream)
}

#[expect(unsafe_code, reason = "driver calls")]
fn default_pool() -> Result<sys::CUmemoryPool> {
    let (mut device, mut pool) = (0, std::ptr::null_mut());
    // SAFETY: each call writes one handle.
    unsafe {
        check("cuCtxGetDevice", sys::cuCtxGetDevice(&raw mut device))?;
        check("cuDeviceGetDefaultMemPool", sys::cuDeviceGetDefaultMemPool(&raw mut pool, device))?;
    }
    Ok(pool)
}

/// Takes memory from the device's pool, good for what comes after in `stream`.
///
/// # Errors
/// When the device has no such memory.
#[expect(unsafe_code, reason = "driver call")]
pub(super) fn from_pool(bytes: usize, stream: &Stream) -> Result<Address> {
    let mut address = 0;
    // SAFETY: writes one address.
    check("cuMemAllocAsync", unsafe { sys::cuMemAllocAsync(&raw mut address, bytes.max(1), stream.raw()) })?;
    Ok(address)
}

/// Gives memory back to the pool once everything before in `stream` is done with it.
///
/// # Errors
/// What the driver says, also about earlier work of the stream.
#[expect(unsafe_code, reason = "driver call")]
pub(super) fn to_pool(address: Address, stream: &Stream) -> Result<()> {
    // SAFETY: the driver knows what it has handed out.
    check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(address, stream.raw()) })
}

/// Has the pool give the device everything that nobody uses.
///
/// # Errors
/// What the driver says.
#[expect(unsafe_code, reason = "driver call")]
pub(super) fn trim_pool() -> Result<()> {
    let pool = default_pool()?;
    // SAFETY: a live handle.
    check("cuMemPoolTrimTo", unsafe { sys::cuMemPoolTrimTo(pool, 0) })
}

/// Host memory at `base` that the device can read and write, registered for the life of the process.
///
/// # Errors
/// When the driver cannot pin it.
#[expect(unsafe_code, reason = "driver calls")]
pub fn register(base: usize, bytes: usize) -> Result<Address> {
    let base = base as *mut std::ffi::c_void;
    let mut address = 0;
    // SAFETY: the caller's mapping is never unmapped while the process lives; the driver checks the range.
    unsafe {
        check(
            "cuMemHostRegister_v2",
            sys::cuMemHostRegister_v2(base, bytes, sys::CU_MEMHOSTREGISTER_DEVICEMAP),
        )?;
        check("cuMemHostGetDevicePointer_v2", sys::cuMemHostGetDevicePointer_v2(&raw mut address, base, 0))?;
    }
    Ok(address)
}
