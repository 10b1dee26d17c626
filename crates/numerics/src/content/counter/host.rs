//! Steps done on host buffers: what the kernels do, bit for bit.

use super::super::{Content, ContentError, SlotBuffers, check_buffers};
use super::mutation::{LOOKS, TRIES};
use super::plan::unit;
use super::{MutationStep, Quantised, Step, What, element_bits, mutations, steps};
use crate::codec::round_to;
use crate::view::pack;
use kernelseek_core::case::{Case, TensorCase};
use kernelseek_core::dtype::DType;

/// Fills every input of a slot.
///
/// # Errors
/// The buffers are not those of the case, or a generator cannot fill its tensor.
pub fn fill(case: &Case, content: Content, slot: &mut SlotBuffers<'_>) -> Result<(), ContentError> {
    fill_selected(case, content, slot, |_| true)
}

/// Fills the inputs that `selected` picks, as [`super::super::fill_selected`].
///
/// # Errors
/// As [`fill`].
pub fn fill_selected(
    case: &Case,
    content: Content,
    slot: &mut SlotBuffers<'_>,
    selected: impl Fn(&TensorCase) -> bool,
) -> Result<(), ContentError> {
    check_buffers(case, slot)?;
    let steps = steps(case, content, selected, |table| {
        let mut packed = Vec::new();
        pack(table, slot.storages.get(table.storage?)?, &mut packed).ok().map(|()| packed)
    })?;
    steps.iter().for_each(|step| execute(step, slot));
    Ok(())
}

/// Mutates every varying float input of a slot; see [`mutations`]. Returns the number of elements that changed.
///
/// # Errors
/// As [`fill`].
pub fn mutate_subset(case: &Case, slot: &mut SlotBuffers<'_>, seed: u64) -> Result<usize, ContentError> {
    check_buffers(case, slot)?;
    Ok(mutations(case, seed)?.iter().map(|step| mutate(step, slot)).sum())
}

fn put(bytes: &mut [u8], dtype: DType, at: usize, element: u64) {
    let size = dtype.size();
    if let Some(to) = bytes.get_mut(at * size..(at + 1) * size) {
        to.copy_from_slice(&element.to_le_bytes()[..size]);
    }
}

/// Does one step.
pub fn execute(step: &Step, slot: &mut SlotBuffers<'_>) {
    let (dtype, placement) = (step.dtype, &step.placement);
    let size = dtype.size();
    if let What::Quantised(quantised) = &step.what {
        return quantise(step, quantised, slot);
    }
    let Some(bytes) = slot.storages.get_mut(step.storage) else { return };
    let mut each = |element: &dyn Fn(u64) -> u64| {
        for number in 0..placement.len() {
            let (at, logical) = placement.locate(number);
            put(bytes, dtype, at, element(logical));
        }
    };
    match &step.what {
        What::Constant(element) => each(&|_| *element),
        What::Values(values) => each(&|i| {
            let mut word = [0; 8];
            let at = i as usize * size;
            word[..size].copy_from_slice(values.get(at..at + size).unwrap_or(&[0; 8][..size]));
            u64::from_le_bytes(word)
        }),
        What::Drawn(plan) => each(&|i| element_bits(dtype, plan.value(i))),
        What::Quantised(_) => {}
        What::Ranges { ranges, element } => {
            for &(start, length) in ranges {
                for number in start..start + length {
                    put(bytes, dtype, placement.locate(number as usize).0, *element);
                }
            }
        }
    }
}

fn quantise(step: &Step, quantised: &Quantised, slot: &mut SlotBuffers<'_>) {
    let Quantised { plan, groups, target, scale_storage, scale_dtype, scale_placement } = quantised;
    let mut scales = vec![0.0f64; groups.count()];
    // Over all logical elements, also those that another one replaces in storage: the scale is that of the group.
    for i in 0..quantised.plan.len() {
        let scale = &mut scales[groups.of(i)];
        *scale = scale.max(plan.value(i as u64).abs());
    }
    for scale in &mut scales {
        let stored = round_to(*scale_dtype, *scale / target);
        *scale = if stored > 0.0 { stored } else { 1.0 };
    }
    if let Some(bytes) = slot.storages.get_mut(*scale_storage) {
        for number in 0..scale_placement.len() {
            let (at, logical) = scale_placement.locate(number);
            put(bytes, *scale_dtype, at, element_bits(*scale_dtype, scales[logical as usize]));
        }
    }
    if let Some(bytes) = slot.storages.get_mut(step.storage) {
        for number in 0..step.placement.len() {
            let (at, logical) = step.placement.locate(number);
            let x = plan.value(logical) / scales[groups.of(logical as usize)];
            put(bytes, step.dtype, at, element_bits(step.dtype, x));
        }
    }
}

/// Does one mutation. Returns the number of elements that changed.
pub fn mutate(step: &MutationStep, slot: &mut SlotBuffers<'_>) -> usize {
    let Some(bytes) = slot.storages.get_mut(step.storage) else { return 0 };
    let count = step.placement.len() as u64;
    let mut changed = 0;
    for number in 0..count {
        let (at, logical) = step.placement.locate(number as usize);
        let chosen = step.mutation.places.bits(logical) >> 58 == 0;
        if chosen || number == step.mutation.forced {
            changed += usize::from(redraw(step, bytes, at, logical));
        }
    }
    if changed == 0 {
        let looked = (0..LOOKS).find(|&attempt| {
            let (at, logical) = step.placement.locate(step.mutation.look(attempt, count) as usize);
            redraw(step, bytes, at, logical)
        });
        changed = usize::from(looked.is_some());
    }
    changed
}

fn redraw(step: &MutationStep, bytes: &mut [u8], at: usize, logical: u64) -> bool {
    let size = step.dtype.size();
    let mut old = [0; 8];
    let Some(element) = bytes.get(at * size..(at + 1) * size) else { return false };
    old[..size].copy_from_slice(element);
    let old = u64::from_le_bytes(old);
    if step.mutation.unused == Some(old) {
        return false;
    }
    for attempt in 0..TRIES {
        let bits = step.plan.key().bits(logical * TRIES + attempt);
        let value = match step.mutation.flat {
            Some(reach) => (2.0 * unit(bits) - 1.0) * reach,
            None => step.plan.shape_bits(bits),
        };
        let drawn = element_bits(step.dtype, value);
        if drawn != old {
            put(bytes, step.dtype, at, drawn);
            return true;
        }
    }
    false
}
