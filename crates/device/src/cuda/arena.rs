//! An arena in device memory: allocated and exported by the supervisor, opened by one worker.

use super::error::Result;
use super::gpu::Gpu;
use super::memory::{self, Address, DeviceMemory, IpcHandle};
use crate::layout::{ArenaLayout, Region};
use std::rc::Rc;

/// A run of bytes in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: Address,
    /// Number of bytes.
    pub bytes: usize,
}

/// Device memory that one worker at a time may open: whole granules of its own, zeroed when made, because what the driver hands
/// out may have held something that no worker may see.
#[derive(Debug)]
pub struct Exported {
    memory: DeviceMemory,
    handle: IpcHandle,
}

impl Exported {
    /// Allocates, zeroes and exports at least `bytes`.
    ///
    /// # Errors
    /// When the device has no such memory or the driver offers no IPC.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let memory = gpu.exportable(bytes)?;
        let handle = memory.export()?;
        let exported = Self { memory, handle };
        exported.wipe(gpu)?;
        Ok(exported)
    }
    /// Zeroes it, for the next worker to find nothing of the last one's in it, and waits for that. The last one's process must
    /// have ended.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wipe(&self, gpu: &Gpu) -> Result<()> {
        memory::set(self.memory.address(), 0, self.memory.len(), gpu.stream())?;
        gpu.stream().synchronize()
    }
    /// What the worker opens it with.
    #[must_use]
    pub const fn handle(&self) -> IpcHandle {
        self.handle
    }
    /// Size in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.memory.len()
    }
    /// Whether there is no byte (there always is a granule).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }
}

/// The supervisor's side of an arena on a GPU.
#[derive(Debug)]
pub struct GpuArena {
    gpu: Rc<Gpu>,
    exported: Rc<Exported>,
    layout: ArenaLayout,
}

impl GpuArena {
    /// The arena of this layout at the start of `exported`, which is large enough.
    #[must_use]
    pub const fn new(gpu: Rc<Gpu>, exported: Rc<Exported>, layout: ArenaLayout) -> Self {
        Self { gpu, exported, layout }
    }
    /// Layout of the arena.
    #[must_use]
    pub const fn layout(&self) -> &ArenaLayout {
        &self.layout
    }
    /// The GPU it lies on.
    #[must_use]
    pub const fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }

    fn region(&self, slot: usize, storage: usize) -> Option<Region> {
        self.layout.regions.get(slot)?.get(storage).copied()
    }
    fn span(&self, (start, end): (usize, usize)) -> Span {
        // The layout was made for this memory; a range beyond it would be a mistake of this crate, and is cut.
        let end = end.min(self.exported.len());
        let start = start.min(end);
        Span { address: self.exported.memory.address() + start as u64, bytes: end - start }
    }
    /// Data of one storage of one slot; empty if there is none.
    #[must_use]
    pub fn data(&self, slot: usize, storage: usize) -> Span {
        self.span(self.region(slot, storage).map_or((0, 0), |r| r.data_range()))
    }
    /// Redzones before and after a storage.
    #[must_use]
    pub fn redzones(&self, slot: usize, storage: usize) -> [Span; 2] {
        self.region(slot, storage)
            .map_or([self.span((0, 0)); 2], |r| [self.span(r.before()), self.span(r.after())])
    }
}
