//! One request to one side: load the slots, evict them, call, gather what came out.

use crate::gpu_slots;
use crate::outputs::{self, Digest, Outputs};
use crate::settings::{Column, Mode};
use crate::staging::{Staged, StorageKinds};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::wording::counted;
use kernelseek_device::arena::{Arena, HostArena};
use kernelseek_device::client::{Answer, Asked, DeviceError, Worker};
use kernelseek_device::protocol::{Entry, Gate};
use kernelseek_numerics::poison;
use std::time::Duration;

/// Seed of redzone canaries: they only have to be unlikely, not secret.
const CANARY: u64 = 0x5ed_20fe_c0de;

/// What came back from one request.
#[derive(Debug)]
pub struct Returned {
    /// Statuses and times.
    pub answer: Answer,
    /// Outputs of each call, in the order of the request.
    pub outputs: Vec<Outputs>,
    /// Positions whose outputs changed after the request had been acknowledged.
    pub deferred: Vec<usize>,
    /// Digests of the outputs, where they were taken.
    pub digests: Option<Vec<Vec<Digest>>>,
    /// Fingerprints of the inputs as they were written, where they are not compared byte by byte.
    pub inputs: gpu_slots::Fingerprints,
    /// What the supervisor's own kernel showed right after the request, on a GPU.
    pub look: Option<gpu_slots::Look>,
}

/// Evicts what a request will touch where the processor offers no eviction by address.
#[derive(Debug, Default)]
pub struct Sweeper {
    buffer: Vec<u64>,
}

impl Sweeper {
    fn sweep(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![1; kernelseek_device::cache::last_level_bytes() / 4];
        }
        let _ = kernelseek_device::cache::sweep(&self.buffer);
    }
}

/// Fills every redzone with its canary.
///
/// # Errors
/// When the GPU fails.
pub fn arm_redzones(arena: &mut Arena) -> Result<(), DeviceError> {
    match arena {
        Arena::Host(arena) => arm_host_redzones(arena),
        Arena::Gpu(arena) => gpu_slots::arm_redzones(arena, canary)?,
    }
    Ok(())
}

fn arm_host_redzones(arena: &mut HostArena) {
    arena.for_each_redzone(|slot, storage, after, bytes| {
        poison::fill_canary(bytes, canary(slot, storage, after));
    });
}

const fn canary(slot: usize, storage: usize, after: bool) -> u64 {
    CANARY ^ ((slot as u64) << 32) ^ ((storage as u64) << 1) ^ after as u64
}

/// What a request is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Entry point.
    pub entry: Entry,
    /// The scenario.
    pub case: &'a Case,
    /// Its storages.
    pub kinds: &'a StorageKinds,
    /// Contents, one a slot.
    pub staged: &'a [Staged],
    /// Slots, in the order of the calls.
    pub slots: &'a [u32],
    /// What the caches hold.
    pub mode: Mode,
    /// What is timed.
    pub column: Column,
    /// How long it may take.
    pub deadline: Duration,
}

/// Loads the contents into the slots and calls the entry point on them in this order.
///
/// # Errors
/// When the worker dies, misses the deadline or breaks the protocol.
pub fn send(worker: &mut Worker, sent: &Sent<'_>, sweeper: &mut Sweeper) -> Result<Returned, DeviceError> {
    let &Sent { entry, case, kinds, staged, slots, mode, column, deadline } = sent;
    let gate = match column {
        _ if !worker.halts() => Gate::None,
        Column::Device if worker.on_gpu() => Gate::Stream,
        Column::Graph if worker.on_gpu() => Gate::Graph,
        _ => Gate::Host,
    };
    let mut inputs = gpu_slots::Fingerprints::default();
    let mut look = None;
    let mut outputs: Vec<Outputs> = Vec::new();
    let mut deferred = Vec::new();
    let mut digests: Option<Vec<Vec<Digest>>> = None;
    let load = |arena: &mut Arena| {
        Staged::load(staged, slots, case, kinds, arena)?;
        match arena {
            Arena::Host(arena) => {
                if mode == Mode::Cold {
                    let evicted = slots.iter().fold(true, |all, &slot| arena.flush(slot as usize) & all);
                    if !evicted {
                        sweeper.sweep();
                    }
                }
            }
            Arena::Gpu(arena) => inputs = gpu_slots::settle(arena, kinds, slots, mode)?,
        }
        Ok(())
    };
    let at_return = |arena: &Arena, settled: bool| match arena {
        Arena::Host(arena) => {
            let now =
                slots.iter().map(|&slot| Outputs::gather(case, |storage| arena.data(slot as usize, storage)));
            if settled && !outputs.is_empty() {
                deferred =
                    now.zip(&outputs).enumerate().filter(|(_, (a, b))| a != *b).map(|(i, _)| i).collect();
            } else {
                outputs = now.collect();
            }
        }
        Arena::Gpu(arena) => {
            if settled && !outputs.is_empty() {
                if let Some(digests) = &digests {
                    deferred = gpu_slots::changed(arena, case, slots, &outputs, digests);
                }
            } else {
                if gate != Gate::None {
                    look = gpu_slots::look(arena);
                }
                outputs = slots.iter().map(|&slot| gpu_slots::gather(arena, case, slot as usize)).collect();
                digests = outputs::digests(&outputs);
            }
        }
    };
    let answer = worker.ask(&Asked { entry, slots, gate, deadline }, load, at_return)?;
    if let Some(Arena::Gpu(arena)) = worker.arena_mut() {
        arena.gpu().note_request(answer.wall);
    }
    Ok(Returned { answer, outputs, deferred, digests, inputs, look })
}

/// What a call may not have done to the memory around it: written its inputs or outside its tensors, or left
/// outputs unwritten. Repairs broken redzones.
///
/// # Errors
/// When the GPU fails.
pub fn check_memory(
    arena: &mut Arena,
    case: &Case,
    kinds: &StorageKinds,
    staged: &[Staged],
    slots: &[u32],
    inputs: &gpu_slots::Fingerprints,
) -> Result<Vec<Finding>, DeviceError> {
    let findings = match arena {
        Arena::Host(arena) => check_host_memory(arena, case, kinds, staged, slots),
        Arena::Gpu(arena) => gpu_slots::check(arena, case, kinds, staged, slots, inputs, canary)?,
    };
    if findings.iter().any(|f| f.defence == "correct.redzone") {
        arm_redzones(arena)?;
    }
    Ok(findings)
}

/// A write outside a tensor: `offset` is the first spoilt byte of a redzone of `length` bytes.
pub(crate) fn outside(name: &str, after: bool, offset: usize, length: usize) -> Finding {
    let place = if after {
        format!("{offset} bytes past the end of `{name}`")
    } else {
        format!("{} bytes before `{name}`", length.saturating_sub(offset))
    };
    Finding::new("correct.redzone", Severity::Fail, "a call wrote outside its tensors")
        .with_evidence(place)
        .with_next("check the loop bounds and the vector tail of the store")
}

/// A written input.
pub(crate) fn input_written(place: String) -> Finding {
    Finding::new("correct.input-written", Severity::Fail, "a call wrote one of its inputs")
        .with_evidence(place)
        .with_next("inputs are read-only: use the workspace for intermediates")
}

/// Elements that a call left as they were.
pub(crate) fn left_unwritten(name: &str, elements: usize) -> Finding {
    Finding::new("correct.unwritten", Severity::Fail, "a call left output elements unwritten")
        .with_evidence(format!("{} of `{name}`", counted(elements, "element")))
        .with_next("every element of every output must be written on every call")
}

fn check_host_memory(
    arena: &HostArena,
    case: &Case,
    kinds: &StorageKinds,
    staged: &[Staged],
    slots: &[u32],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (staged, &slot) in staged.iter().zip(slots) {
        let slot = slot as usize;
        for (index, storage) in case.storages.iter().enumerate() {
            // A constant storage is one region for all slots, armed as the first slot's.
            let owner = if arena.layout().constant.get(index).copied().unwrap_or(false) { 0 } else { slot };
            for (after, zone) in [false, true].into_iter().zip(arena.redzones(slot, index)) {
                if let Some(offset) = poison::check_canary(zone, canary(owner, index, after)) {
                    findings.push(outside(&storage.name, after, offset, zone.len()));
                }
            }
            let bytes = arena.data(slot, index);
            if kinds.read_only[index] {
                if let Some(at) = first_difference(bytes, &staged.storages[index]) {
                    findings.push(input_written(format!("byte {at} of `{}`", storage.name)));
                }
            } else if whole_output(case, index) {
                let left = poison::poison_remains(storage.dtype, bytes, staged.poison);
                if poison::is_poison_left(storage.dtype, left, storage.elements) {
                    findings.push(left_unwritten(&storage.name, left));
                }
            }
        }
    }
    findings
}

/// Whether a storage is one dense output, every element of which a call must write.
pub(crate) fn whole_output(case: &Case, storage: usize) -> bool {
    let mut views = case.tensors.iter().filter(|t| t.storage == Some(storage));
    let Some(tensor) = views.next() else { return false };
    let elements = case.storages.get(storage).map_or(0, |s| s.elements);
    views.next().is_none()
        && tensor.is_contiguous()
        && tensor.offset == 0
        && tensor.len() == elements
        && tensor.role == kernelseek_core::case::Role::Output
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    // The common case is equality, and comparing whole slices is a memcmp.
    if a == b {
        return None;
    }
    Some(a.iter().zip(b).position(|(x, y)| x != y).unwrap_or_else(|| a.len().min(b.len())))
}
