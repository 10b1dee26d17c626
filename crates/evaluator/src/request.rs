//! One request to one side: load the slots, evict them, call, gather what came out.

use crate::outputs::Outputs;
use crate::settings::Mode;
use crate::staging::{Staged, StorageKinds};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::arena::Arena;
use kernelseek_device::client::{Answer, DeviceError, Worker};
use kernelseek_device::protocol::Entry;
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
pub fn arm_redzones(arena: &mut Arena) {
    arena.for_each_redzone(|slot, storage, after, bytes| {
        poison::fill_canary(bytes, canary(slot, storage, after));
    });
}

const fn canary(slot: usize, storage: usize, after: bool) -> u64 {
    CANARY ^ ((slot as u64) << 32) ^ ((storage as u64) << 1) ^ after as u64
}

/// Loads `staged` into `slots` and calls `entry` on them in this order.
///
/// # Errors
/// When the worker dies, misses the deadline or breaks the protocol.
#[expect(clippy::too_many_arguments, reason = "one call site a side; a struct would only rename them")]
pub fn send(
    worker: &mut Worker,
    entry: Entry,
    case: &Case,
    staged: &[Staged],
    slots: &[u32],
    mode: Mode,
    sweeper: &mut Sweeper,
    deadline: Duration,
) -> Result<Returned, DeviceError> {
    if let Some(arena) = worker.arena_mut() {
        for (staged, &slot) in staged.iter().zip(slots) {
            staged.load(arena, slot as usize);
        }
        if mode == Mode::Cold {
            let mut evicted = true;
            for &slot in slots {
                evicted &= arena.flush(slot as usize);
            }
            if !evicted {
                sweeper.sweep();
            }
        }
    }
    let mut outputs: Vec<Outputs> = Vec::new();
    let mut deferred = Vec::new();
    let answer = worker.call(entry, slots, deadline, |arena, settled| {
        let now =
            slots.iter().map(|&slot| Outputs::gather(case, |storage| arena.data(slot as usize, storage)));
        if settled && !outputs.is_empty() {
            deferred = now.zip(&outputs).enumerate().filter(|(_, (a, b))| a != *b).map(|(i, _)| i).collect();
        } else {
            outputs = now.collect();
        }
    })?;
    Ok(Returned { answer, outputs, deferred })
}

/// What a call may not have done to the memory around it: written its inputs or outside its tensors, or left
/// outputs unwritten. Repairs broken redzones.
pub fn check_memory(
    arena: &mut Arena,
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
                    let place = if after {
                        format!("{} bytes past the end of `{}`", offset, storage.name)
                    } else {
                        format!("{} bytes before `{}`", zone.len() - offset, storage.name)
                    };
                    findings.push(
                        Finding::new("correct.redzone", Severity::Fail, "a call wrote outside its tensors")
                            .with_evidence(place)
                            .with_next("check the loop bounds and the vector tail of the store"),
                    );
                }
            }
            let bytes = arena.data(slot, index);
            if kinds.read_only[index] {
                if let Some(at) = first_difference(bytes, &staged.storages[index]) {
                    findings.push(
                        Finding::new(
                            "correct.input-written",
                            Severity::Fail,
                            "a call wrote one of its inputs",
                        )
                        .with_evidence(format!("byte {at} of `{}`", storage.name))
                        .with_next("inputs are read-only: use the workspace for intermediates"),
                    );
                }
            } else if let Some(left) = unwritten(case, index, bytes, staged.poison) {
                findings.push(
                    Finding::new(
                        "correct.unwritten",
                        Severity::Fail,
                        "a call left output elements unwritten",
                    )
                    .with_evidence(format!("{left} elements of `{}`", storage.name))
                    .with_next("every element of every output must be written on every call"),
                );
            }
        }
    }
    if findings.iter().any(|f| f.defence == "correct.redzone") {
        arm_redzones(arena);
    }
    findings
}

/// Elements that still hold their poison, for a storage that is one dense output.
fn unwritten(case: &Case, storage: usize, bytes: &[u8], seed: u64) -> Option<usize> {
    let mut views = case.tensors.iter().filter(|t| t.storage == Some(storage));
    let tensor = views.next()?;
    let whole = views.next().is_none() && tensor.is_contiguous() && tensor.offset == 0;
    if !whole || tensor.role != kernelseek_core::case::Role::Output {
        return None;
    }
    let left = poison::poison_remains(tensor.dtype, bytes, seed);
    poison::is_poison_left(tensor.dtype, left, tensor.len()).then_some(left)
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    // The common case is equality, and comparing whole slices is a memcmp.
    if a == b {
        return None;
    }
    Some(a.iter().zip(b).position(|(x, y)| x != y).unwrap_or_else(|| a.len().min(b.len())))
}
