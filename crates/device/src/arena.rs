//! Memory shared between the supervisor and one worker: pages of this machine, or of a GPU.

use crate::cuda::arena::GpuArena;
use crate::layout::{ArenaLayout, PAGE, Region};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;

/// A memfd mapped whole into the supervisor. Its size is sealed, so that a worker cannot shrink it and kill the
/// supervisor with a bus error.
#[derive(Debug)]
pub struct SharedMemory {
    fd: OwnedFd,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone within the process and is only reached through `&self` and
// `&mut self` methods that copy.
#[expect(unsafe_code, reason = "a shared mapping is a raw pointer")]
unsafe impl Send for SharedMemory {}

/// Why shared memory could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes of shared memory could not be set up: {what}")]
pub struct MemoryError {
    /// How many bytes.
    pub bytes: usize,
    /// Which step failed.
    pub what: &'static str,
    /// Why.
    #[source]
    pub source: rustix::io::Errno,
}

impl SharedMemory {
    /// Creates zeroed shared memory of `bytes`, rounded up to a page.
    ///
    /// # Errors
    /// When the system refuses the memory.
    #[expect(unsafe_code, reason = "mmap")]
    pub fn new(name: &str, bytes: usize) -> Result<Self, MemoryError> {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let fail = |what| move |source| MemoryError { bytes, what, source };
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(fail("memfd_create"))?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(fail("ftruncate"))?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(fail("sealing"))?;
        // SAFETY: a fresh shared mapping of a descriptor that this value owns; nothing else aliases it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        }
        .map_err(fail("mmap"))?;
        let base = NonNull::new(base.cast()).ok_or(MemoryError {
            bytes,
            what: "mmap returned null",
            source: rustix::io::Errno::NOMEM,
        })?;
        Ok(Self { fd, base, bytes })
    }

    /// The descriptor, to be passed to a worker.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Size in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is no byte (there always is one page).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// First byte of the mapping.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The bytes `range`, clamped to the mapping. The caller reads them while the worker is stopped or trusted;
    /// otherwise it may see them change, which corrupts nothing but the comparison.
    #[must_use]
    #[expect(unsafe_code, reason = "view of the mapping")]
    pub fn bytes(&self, range: (usize, usize)) -> &[u8] {
        let end = range.1.min(self.bytes);
        let start = range.0.min(end);
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), end - start) }
    }

    /// The bytes `range` for writing, clamped to the mapping.
    #[must_use]
    #[expect(unsafe_code, reason = "view of the mapping")]
    pub fn bytes_mut(&mut self, range: (usize, usize)) -> &mut [u8] {
        let end = range.1.min(self.bytes);
        let start = range.0.min(end);
        // SAFETY: within the mapping; `&mut self` makes this the only view within the process.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(start), end - start) }
    }
}

impl Drop for SharedMemory {
    #[expect(unsafe_code, reason = "munmap")]
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The supervisor's side of an arena.
#[derive(Debug)]
pub enum Arena {
    /// In this machine's memory.
    Host(HostArena),
    /// In a GPU's memory.
    Gpu(GpuArena),
}

impl Arena {
    /// Layout of the arena.
    #[must_use]
    pub const fn layout(&self) -> &ArenaLayout {
        match self {
            Self::Host(arena) => arena.layout(),
            Self::Gpu(arena) => arena.layout(),
        }
    }
}

/// An arena in this machine's memory.
#[derive(Debug)]
pub struct HostArena {
    memory: SharedMemory,
    layout: ArenaLayout,
}

impl HostArena {
    /// Allocates an arena.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn new(layout: ArenaLayout) -> Result<Self, MemoryError> {
        Ok(Self { memory: SharedMemory::new("ks-arena", layout.bytes)?, layout })
    }
    /// Layout of the arena.
    #[must_use]
    pub const fn layout(&self) -> &ArenaLayout {
        &self.layout
    }
    /// The memory behind it.
    #[must_use]
    pub const fn memory(&self) -> &SharedMemory {
        &self.memory
    }
    fn region(&self, slot: usize, storage: usize) -> Option<Region> {
        self.layout.regions.get(slot)?.get(storage).copied()
    }
    /// Data of one storage of one slot; empty if there is none.
    #[must_use]
    pub fn data(&self, slot: usize, storage: usize) -> &[u8] {
        self.region(slot, storage).map_or(&[], |r| self.memory.bytes(r.data_range()))
    }
    /// The same for writing.
    #[must_use]
    pub fn data_mut(&mut self, slot: usize, storage: usize) -> &mut [u8] {
        match self.region(slot, storage) {
            Some(r) => self.memory.bytes_mut(r.data_range()),
            None => &mut [],
        }
    }
    /// Redzones before and after a storage.
    #[must_use]
    pub fn redzones(&self, slot: usize, storage: usize) -> [&[u8]; 2] {
        match self.region(slot, storage) {
            Some(r) => [self.memory.bytes(r.before()), self.memory.bytes(r.after())],
            None => [&[], &[]],
        }
    }
    /// Applies `write` to every redzone of every region.
    pub fn for_each_redzone(&mut self, mut write: impl FnMut(usize, usize, bool, &mut [u8])) {
        let regions: Vec<_> = self.layout.unique_regions().collect();
        for (slot, storage, region) in regions {
            write(slot, storage, false, self.memory.bytes_mut(region.before()));
            write(slot, storage, true, self.memory.bytes_mut(region.after()));
        }
    }
    /// Evicts one slot's storages from every cache level, so that the next call finds them in memory. Returns
    /// whether this machine can do it (see [`crate::cache::flush_range`]).
    pub fn flush(&self, slot: usize) -> bool {
        let Some(regions) = self.layout.regions.get(slot) else { return true };
        regions.iter().all(|r| crate::cache::flush_range(self.memory.bytes(r.data_range())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_sealed_and_clamped() {
        let mut memory = SharedMemory::new("t", 5000).unwrap();
        assert_eq!(memory.len(), 8192);
        assert!(memory.bytes((0, 9000)).iter().all(|&b| b == 0));
        assert_eq!(memory.bytes((0, 9000)).len(), 8192);
        assert!(memory.bytes((9000, 9100)).is_empty());
        memory.bytes_mut((10, 12)).copy_from_slice(&[1, 2]);
        assert_eq!(memory.bytes((9, 13)), [0, 1, 2, 0]);
        assert!(rustix::fs::ftruncate(memory.fd(), 0).is_err(), "a worker cannot shrink it");
        assert!(rustix::fs::ftruncate(memory.fd(), 1 << 20).is_err(), "nor grow it");
    }
}
