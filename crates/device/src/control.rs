//! The control page: the gate that opens a request and the word that closes it.
//!
//! A timed request is armed by message, so that the worker is already running when the gate opens; the
//! supervisor stamps its clock, opens the gate and spins on `done`. Everything else travels by message. The page
//! lies in the worker's reach, so nothing in it is believed: a forged `done` ends the request with the worker
//! stopped and its outputs incomplete, and a forged fault address only garbles a message to the user.

use crate::arena::{MemoryError, SharedMemory};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Layout of the page. All words start at zero.
#[derive(Debug)]
#[repr(C)]
pub struct ControlPage {
    go: AtomicU32,
    _pad0: [u8; 60],
    done: AtomicU32,
    _pad1: [u8; 60],
    stream_done: AtomicU32,
    _pad2: [u8; 60],
    fault_address: AtomicU64,
    fault_region: AtomicU64,
    fault_offset: AtomicI64,
    fault_signal: AtomicU32,
}

/// A fatal signal as the worker saw it on its way down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Signal number.
    pub signal: i32,
    /// Faulting address in the worker.
    pub address: u64,
    /// Slot and storage whose region or guard pages hold the address, and the address's distance in bytes from
    /// the start of the storage's data.
    pub place: Option<(usize, usize, i64)>,
}

/// Offset of the word that opens the gate, as a device waits for it.
pub const GATE_OFFSET: u64 = 0;
/// Offset of the word that a device writes once the stream is through.
pub const STREAM_DONE_OFFSET: u64 = 128;

impl ControlPage {
    /// Opens the gate for request `sequence`.
    pub fn open(&self, sequence: u32) {
        self.go.store(sequence, Ordering::Release);
    }
    /// Number of the last request whose gate was opened.
    pub fn opened(&self) -> u32 {
        self.go.load(Ordering::Acquire)
    }
    /// Says that request `sequence` has returned.
    pub fn finish(&self, sequence: u32) {
        self.done.store(sequence, Ordering::Release);
    }
    /// Number of the last finished request.
    pub fn finished(&self) -> u32 {
        self.done.load(Ordering::Acquire)
    }
    /// Number of the last request that the device has finished on the call's stream.
    pub fn stream_finished(&self) -> u32 {
        self.stream_done.load(Ordering::Acquire)
    }
    /// Notes a fatal signal. Async-signal-safe.
    pub fn note_fault(&self, fault: Fault) {
        self.fault_address.store(fault.address, Ordering::Relaxed);
        if let Some((slot, storage, offset)) = fault.place {
            self.fault_region.store(((slot as u64) << 32 | storage as u64) + 1, Ordering::Relaxed);
            self.fault_offset.store(offset, Ordering::Relaxed);
        }
        self.fault_signal.store(fault.signal as u32, Ordering::Release);
    }
    /// The noted fatal signal.
    pub fn fault(&self) -> Option<Fault> {
        let signal = self.fault_signal.load(Ordering::Acquire) as i32;
        let region = self.fault_region.load(Ordering::Relaxed);
        let place = region.checked_sub(1).map(|r| {
            ((r >> 32) as usize, (r & 0xffff_ffff) as usize, self.fault_offset.load(Ordering::Relaxed))
        });
        (signal != 0).then(|| Fault { signal, address: self.fault_address.load(Ordering::Relaxed), place })
    }
}

/// The supervisor's side.
#[derive(Debug)]
pub struct Control {
    memory: SharedMemory,
}

impl Control {
    /// Allocates a control page.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn new() -> Result<Self, MemoryError> {
        Ok(Self { memory: SharedMemory::new("ks-control", size_of::<ControlPage>())? })
    }
    /// The page.
    #[must_use]
    #[expect(unsafe_code, reason = "typed view of the mapping")]
    pub fn page(&self) -> &ControlPage {
        // SAFETY: the mapping is page-aligned, zeroed, larger than the type, and every field is atomic.
        unsafe { self.memory.base().cast().as_ref() }
    }
    /// The memory, whose descriptor a worker maps.
    #[must_use]
    pub const fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_words_lie_where_a_device_looks_for_them() {
        assert_eq!(offset_of!(ControlPage, go) as u64, GATE_OFFSET);
        assert_eq!(offset_of!(ControlPage, stream_done) as u64, STREAM_DONE_OFFSET);
        assert_eq!(offset_of!(ControlPage, done), 64);
    }
}
