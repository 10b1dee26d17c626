//! What is done to the slots of an arena on a GPU around a request: the counterparts of what `request` does byte by byte in
//! this machine's memory.

use crate::device_data::{DeviceData, prints};
use crate::gpu_staging::range;
use crate::outputs::{Data, Digest, Outputs};
use crate::request::{input_written, left_unwritten, outside, whole_output};
use crate::settings::Mode;
use crate::staging::{Staged, StorageKinds};
use kernelseek_core::case::{Case, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_core::finding::Finding;
use kernelseek_device::cuda::arena::{GpuArena, Span};
use kernelseek_device::cuda::error::Result;
use kernelseek_device::cuda::helpers::{Range, Stamp};
use kernelseek_device::cuda::memory;
use kernelseek_numerics::content::counter::Placement;
use kernelseek_numerics::poison;
use std::time::Instant;

/// Key of input fingerprints. The candidate may know it: an input that it changes and that still has its fingerprint would
/// have to be found among 2^128, and is compared by the partner's outputs all the same.
const INPUT_KEY: u64 = 0x1a9u64 << 32 | 0x0005_eed5;
/// Cycles that the clock is watched for.
const STAMP_CYCLES: u64 = 20_000;

/// Fingerprints of a request's read-only storages as they were written, slot by slot.
#[derive(Debug, Clone, Default)]
pub struct Fingerprints(Vec<u128>);

/// What the supervisor's own kernel shows right after a request.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: f64,
    /// How long the kernel took by the wall, nanoseconds: work that was left on the device takes turns with it.
    pub wall_ns: f64,
}

/// Fills every redzone with its canary.
///
/// # Errors
/// What the driver says.
pub fn arm_redzones(arena: &GpuArena, canary: impl Fn(usize, usize, bool) -> u64) -> Result<()> {
    let ranges: Vec<Range> = arena
        .layout()
        .unique_regions()
        .flat_map(|(slot, storage, _)| {
            zones(arena, slot, storage, canary(slot, storage, false), canary(slot, storage, true))
        })
        .collect();
    arena.gpu().helpers().fill_canaries(&ranges, arena.gpu().stream())
}

fn zones(arena: &GpuArena, slot: usize, storage: usize, before: u64, after: u64) -> [Range; 2] {
    let of = |span: Span, seed| Range { address: span.address, bytes: span.bytes, seed, dtype: DType::U8 };
    let [first, second] = arena.redzones(slot, storage);
    [of(first, before), of(second, after)]
}

fn read_only(arena: &GpuArena, kinds: &StorageKinds, slots: &[u32]) -> Vec<(u64, usize)> {
    slots
        .iter()
        .flat_map(|&slot| {
            kinds.read_only.iter().enumerate().filter(|(_, only)| **only).map(move |(storage, _)| {
                let span = arena.data(slot as usize, storage);
                (span.address, span.bytes)
            })
        })
        .collect()
}

/// Ends the loading of a request: fingerprints the inputs, pushes everything out of the cache in mode `cold`, and waits.
///
/// # Errors
/// What the driver says.
pub fn settle(arena: &GpuArena, kinds: &StorageKinds, slots: &[u32], mode: Mode) -> Result<Fingerprints> {
    let gpu = arena.gpu();
    let inputs = read_only(arena, kinds, slots);
    let prints = if inputs.is_empty() {
        Vec::new()
    } else {
        gpu.helpers().fingerprints(&inputs, INPUT_KEY, gpu.stream())?
    };
    if mode == Mode::Cold {
        gpu.flush_and_wait()?;
    } else {
        gpu.stream().synchronize()?;
    }
    Ok(Fingerprints(prints))
}

/// Watches the clock, and with it whether anything else is on the device.
pub fn look(arena: &GpuArena) -> Option<Look> {
    let gpu = arena.gpu();
    let start = Instant::now();
    let looked = gpu.block(Stamp::BYTES).and_then(|block| {
        gpu.helpers().stamp(STAMP_CYCLES, block.address(), gpu.stream())?;
        gpu.helpers().read_stamp(block.address(), gpu.stream())
    });
    let wall_ns = start.elapsed().as_nanos() as f64;
    let stamp = gpu.guard(looked.map(Some), None)?;
    Some(Look { sm_mhz: stamp.khz() / 1e3, wall_ns })
}

/// Copies the outputs of one slot to where no worker sees them.
#[must_use]
pub fn gather(arena: &GpuArena, case: &Case, slot: usize) -> Outputs {
    let gpu = arena.gpu();
    let tensors = case
        .tensors
        .iter()
        .map(|tensor| match tensor.storage {
            Some(storage) if tensor.role.is_output() => {
                gpu.guard(gather_tensor(arena, tensor, slot, storage).map(Data::Device), Data::default())
            }
            _ => Data::default(),
        })
        .collect();
    Outputs { tensors, sample: None }
}

fn gather_tensor(arena: &GpuArena, tensor: &TensorCase, slot: usize, storage: usize) -> Result<DeviceData> {
    let (gpu, span) = (arena.gpu(), arena.data(slot, storage));
    let bytes = tensor.len() * tensor.dtype.size();
    let start = tensor.offset.max(0) as u64 * tensor.dtype.size() as u64;
    DeviceData::made(gpu, bytes, |at| {
        if tensor.is_contiguous() {
            memory::copy(at, span.address + start, bytes, gpu.stream())
        } else {
            gpu.helpers().gather(&Placement::all(tensor), span.address, tensor.dtype, at, gpu.stream())
        }
    })
}

/// Positions of the slots whose outputs are no longer what they were; `digests` are those of the outputs as they were.
#[must_use]
pub fn changed(
    arena: &GpuArena,
    case: &Case,
    slots: &[u32],
    outputs: &[Outputs],
    digests: &[Vec<Digest>],
) -> Vec<usize> {
    // Dense outputs are looked at where they lie, all in one go; others are gathered once more.
    let mut spans = Vec::new();
    let mut owners = Vec::new();
    let mut changed = std::collections::BTreeSet::new();
    for (position, (&slot, before)) in slots.iter().zip(outputs).enumerate() {
        for (index, (tensor, before)) in case.tensors.iter().zip(&before.tensors).enumerate() {
            let (Some(storage), Data::Device(before)) = (tensor.storage, before) else { continue };
            if !tensor.role.is_output() || before.is_empty() {
                continue;
            }
            if tensor.is_contiguous() {
                let start = tensor.offset.max(0) as u64 * tensor.dtype.size() as u64;
                spans.push((arena.data(slot as usize, storage).address + start, before.len()));
                owners.push((position, index));
            } else {
                let now = gather_tensor(arena, tensor, slot as usize, storage);
                if arena.gpu().guard(now.map(|now| !now.equals(before)), false) {
                    changed.insert(position);
                }
            }
        }
    }
    if !spans.is_empty() {
        let now = prints(arena.gpu(), &spans);
        let differs = |(position, index): &(usize, usize), now: &[u8; 32]| digests[*position][*index] != *now;
        changed.extend(owners.iter().zip(&now).filter(|(owner, now)| differs(owner, now)).map(|(o, _)| o.0));
    }
    changed.into_iter().collect()
}

/// The first bytes of one storage of one slot.
#[must_use]
pub fn head(arena: &GpuArena, slot: usize, storage: usize, most: usize) -> Vec<u8> {
    let span = arena.data(slot, storage);
    let mut bytes = vec![0; span.bytes.min(most)];
    let outcome = memory::download(&mut bytes, span.address, arena.gpu().stream());
    arena.gpu().guard(outcome, ());
    bytes
}

/// Sets every byte of one storage of one slot.
///
/// # Errors
/// What the driver says.
pub fn set(arena: &GpuArena, slot: usize, storage: usize, byte: u8) -> Result<()> {
    let span = arena.data(slot, storage);
    memory::set(span.address, byte, span.bytes, arena.gpu().stream())?;
    arena.gpu().stream().synchronize()
}

/// What the calls of a request may not have done to the memory around them; see `request::check_memory`.
///
/// # Errors
/// What the driver says.
pub fn check(
    arena: &GpuArena,
    case: &Case,
    kinds: &StorageKinds,
    staged: &[Staged],
    slots: &[u32],
    inputs: &Fingerprints,
    canary: impl Fn(usize, usize, bool) -> u64,
) -> Result<Vec<Finding>> {
    let gpu = arena.gpu();
    let mut findings = Vec::new();
    let constant = |index: usize| arena.layout().constant.get(index).copied().unwrap_or(false);
    let mut ranges = Vec::new();
    let mut places = Vec::new();
    for &slot in slots {
        let slot = slot as usize;
        for (index, storage) in case.storages.iter().enumerate() {
            // A constant storage is one region for all slots, armed as the first slot's.
            let owner = if constant(index) { 0 } else { slot };
            ranges.extend(zones(arena, slot, index, canary(owner, index, false), canary(owner, index, true)));
            places.extend([(&storage.name, false), (&storage.name, true)]);
        }
    }
    if let Some((at, byte)) = gpu.helpers().check_canaries(&ranges, gpu.stream())?
        && let (Some((name, after)), Some(range)) = (places.get(at), ranges.get(at))
    {
        findings.push(outside(name, *after, byte, range.bytes));
    }
    let now = read_only(arena, kinds, slots);
    if !now.is_empty() {
        let prints = gpu.helpers().fingerprints(&now, INPUT_KEY, gpu.stream())?;
        let names: Vec<&str> = case
            .storages
            .iter()
            .zip(&kinds.read_only)
            .filter(|(_, only)| **only)
            .map(|(storage, _)| storage.name.as_str())
            .collect();
        let mut written: Vec<&str> = prints
            .iter()
            .zip(&inputs.0)
            .enumerate()
            .filter(|(_, (now, before))| now != before)
            .filter_map(|(at, _)| names.get(at % names.len().max(1)).copied())
            .collect();
        written.sort_unstable();
        written.dedup();
        findings.extend(written.into_iter().map(|name| input_written(format!("`{name}`"))));
    }
    findings.extend(unwritten(arena, case, kinds, staged, slots)?);
    Ok(findings)
}

fn unwritten(
    arena: &GpuArena,
    case: &Case,
    kinds: &StorageKinds,
    staged: &[Staged],
    slots: &[u32],
) -> Result<Vec<Finding>> {
    let mut ranges = Vec::new();
    let mut names = Vec::new();
    for (staged, &slot) in staged.iter().zip(slots) {
        for (index, storage) in case.storages.iter().enumerate() {
            if !kinds.read_only[index] && whole_output(case, index) {
                ranges.push(range(arena, slot as usize, index, staged.poison, storage.dtype));
                names.push((&storage.name, storage));
            }
        }
    }
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let left = arena.gpu().helpers().poison_remains(&ranges, arena.gpu().stream())?;
    Ok(left
        .into_iter()
        .zip(names)
        .filter(|(left, (_, storage))| poison::is_poison_left(storage.dtype, *left, storage.elements))
        .map(|(left, (name, _))| left_unwritten(name, left))
        .collect())
}
