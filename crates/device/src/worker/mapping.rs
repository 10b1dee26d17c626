//! The arena mapped into the worker, and the call structs built over it.

use super::cuda::Gpu;
use super::fault::FaultRegion;
use super::library::Library;
use crate::control::ControlPage;
use crate::cuda::memory::DeviceMemory;
use crate::layout::{GUARD, PAGE};
use crate::protocol::Plan;
use kernelseek_core::case::{AttributeValue, MAX_RANK};
use kernelseek_core::layout::CallLayout;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;

/// `ks_abi` of the call contract that this worker builds.
const ABI: u32 = 1;

/// Maps the control page; it stays mapped for the life of the process.
#[expect(unsafe_code, reason = "mmap")]
pub(super) fn map_control(fd: &OwnedFd) -> Result<&'static ControlPage, rustix::io::Errno> {
    // SAFETY: a fresh shared mapping of at least one page; every field of the page is atomic.
    unsafe {
        let base = rustix::mm::mmap(
            std::ptr::null_mut(),
            size_of::<ControlPage>().next_multiple_of(PAGE),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            fd,
            0,
        )?;
        Ok(&*base.cast::<ControlPage>())
    }
}

/// One call struct. 8-byte aligned by being made of words.
#[derive(Debug)]
pub(crate) struct CallStruct {
    words: Vec<u64>,
}

impl CallStruct {
    pub(crate) fn as_ptr(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }
    pub(crate) fn put_u64(&mut self, offset: usize, value: u64) {
        self.words[offset / 8] = value;
    }
    pub(crate) fn put_u32_pair(&mut self, offset: usize, low: u32, high: u32) {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&low.to_ne_bytes());
        bytes[4..].copy_from_slice(&high.to_ne_bytes());
        self.put_u64(offset, u64::from_ne_bytes(bytes));
    }
}

/// An anonymous mapping, zeroed when made.
#[derive(Debug)]
struct Anonymous {
    base: *mut c_void,
    bytes: usize,
}

impl Anonymous {
    #[expect(unsafe_code, reason = "mmap")]
    fn new(bytes: usize, protection: ProtFlags) -> Result<Self, rustix::io::Errno> {
        // SAFETY: a fresh private mapping that only this value knows.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)
        }?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Anonymous {
    #[expect(unsafe_code, reason = "munmap")]
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length (regions mapped over parts of it go with it).
        let _ = unsafe { rustix::mm::munmap(self.base, self.bytes) };
    }
}

/// The mapped arena.
#[derive(Debug)]
pub(super) struct Mapping {
    calls: Vec<CallStruct>,
    layout: CallLayout,
    regions: Vec<FaultRegion>,
    // Held for their destructors.
    _maps: Vec<Anonymous>,
    workspace: Option<Workspace>,
}

/// Scratch memory of the calls. Held for its destructor.
#[derive(Debug)]
enum Workspace {
    Host(Anonymous),
    Device(DeviceMemory),
}

impl Workspace {
    fn address(&self) -> u64 {
        match self {
            Self::Host(memory) => memory.base as u64,
            Self::Device(memory) => memory.address(),
        }
    }
}

impl Mapping {
    /// Maps every region between guard pages and builds one call struct a slot.
    pub(super) fn new(plan: &Plan, fd: &OwnedFd) -> Result<Self, String> {
        let mut maps = Vec::new();
        let mut regions = Vec::new();
        let mut addresses = vec![vec![0usize; plan.layout.constant.len()]; plan.layout.slots];
        for (slot, storage, region) in plan.layout.unique_regions() {
            let reserve = Anonymous::new(region.size + 2 * GUARD, ProtFlags::empty())
                .map_err(|e| format!("no address space for a buffer: {e}"))?;
            let start = reserve.base as usize + GUARD;
            map_over(fd, start, region.size, region.offset)
                .map_err(|e| format!("a buffer could not be mapped: {e}"))?;
            let data = start + region.data;
            regions.push(FaultRegion {
                start: start - GUARD,
                end: start + region.size + GUARD,
                data,
                slot,
                storage,
            });
            for (index, row) in addresses.iter_mut().enumerate() {
                if index == slot || plan.layout.constant[storage] {
                    row[storage] = data;
                }
            }
            maps.push(reserve);
        }
        let layout = CallLayout::new(plan.tensors.len(), plan.attributes.len());
        let calls = addresses.iter().map(|row| build_call(plan, &layout, row)).collect::<Result<_, _>>()?;
        Ok(Self { calls, layout, regions, _maps: maps, workspace: None })
    }

    /// Builds one call struct a slot over an arena in device memory that begins at `base`.
    pub(super) fn on_device(plan: &Plan, base: u64, gpu: &Gpu) -> Result<Self, String> {
        let layout = CallLayout::new(plan.tensors.len(), plan.attributes.len());
        let address = |region: &crate::layout::Region| base as usize + region.offset + region.data;
        let calls = plan
            .layout
            .regions
            .iter()
            .map(|regions| {
                let row: Vec<usize> = regions.iter().map(address).collect();
                let mut call = build_call(plan, &layout, &row)?;
                call.put_u64(layout.stream, gpu.stream().as_ptr() as u64);
                Ok(call)
            })
            .collect::<Result<_, String>>()?;
        Ok(Self { calls, layout, regions: Vec::new(), _maps: Vec::new(), workspace: None })
    }

    /// Asks the library how much workspace its calls want, allocates the largest answer zeroed and hands it to
    /// every call. It is never touched again.
    pub(super) fn provide_workspace(
        &mut self,
        library: &Library,
        gpu: Option<&Gpu>,
    ) -> Result<usize, String> {
        let Some(ask) = library.workspace else { return Ok(0) };
        let bytes = self.calls.iter().map(|c| ask.call(c)).max().unwrap_or(0);
        if bytes == 0 {
            return Ok(0);
        }
        let refused = |e: &dyn std::fmt::Display| format!("a workspace of {bytes} bytes was refused: {e}");
        let workspace = match gpu {
            None => Workspace::Host(
                Anonymous::new(bytes.next_multiple_of(PAGE), ProtFlags::READ | ProtFlags::WRITE)
                    .map_err(|e| refused(&e))?,
            ),
            Some(gpu) => Workspace::Device(gpu.zeroed(bytes).map_err(|e| refused(&e))?),
        };
        for call in &mut self.calls {
            call.put_u64(self.layout.workspace, workspace.address());
            call.put_u64(self.layout.workspace_bytes, bytes as u64);
        }
        self.workspace = Some(workspace);
        Ok(bytes)
    }

    /// The call struct of `slot`.
    pub(super) fn call(&self, slot: usize) -> Option<&CallStruct> {
        self.calls.get(slot)
    }

    /// For the fault handler.
    pub(super) fn regions(&self) -> &[FaultRegion] {
        &self.regions
    }
}

#[expect(unsafe_code, reason = "mmap over a reservation")]
fn map_over(fd: &OwnedFd, address: usize, bytes: usize, offset: usize) -> Result<(), rustix::io::Errno> {
    // SAFETY: the range lies within a reservation made just before, which nothing else uses.
    unsafe {
        rustix::mm::mmap(
            address as *mut c_void,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
            fd,
            offset as u64,
        )?;
    }
    Ok(())
}

/// The call struct of one slot whose storages' data lie at `addresses`.
pub(crate) fn build_call(
    plan: &Plan,
    layout: &CallLayout,
    addresses: &[usize],
) -> Result<CallStruct, String> {
    let mut call = CallStruct { words: vec![0; layout.size.div_ceil(8)] };
    call.put_u32_pair(0, layout.size as u32, ABI);
    for (tensor, &at) in plan.tensors.iter().zip(&layout.tensors) {
        let Some(storage) = tensor.storage else { continue };
        if tensor.shape.len() > MAX_RANK || tensor.shape.len() != tensor.stride.len() {
            return Err(format!("tensor `{}` has a malformed shape", tensor.name));
        }
        let base =
            addresses.get(storage).ok_or_else(|| format!("tensor `{}` has no storage", tensor.name))?;
        call.put_u64(at, (base + tensor.offset) as u64);
        call.put_u32_pair(at + 8, tensor.dtype as u32, tensor.shape.len() as u32);
        for (i, (&extent, &stride)) in tensor.shape.iter().zip(&tensor.stride).enumerate() {
            call.put_u64(at + 16 + 8 * i, extent as u64);
            call.put_u64(at + 16 + 8 * MAX_RANK + 8 * i, stride as u64);
        }
    }
    for ((_, value), &at) in plan.attributes.iter().zip(&layout.attributes) {
        call.put_u64(
            at,
            match value {
                AttributeValue::F64(x) => x.to_bits(),
                AttributeValue::I64(x) => *x as u64,
            },
        );
    }
    Ok(call)
}
