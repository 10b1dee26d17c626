//! Same pointer, new content: what a candidate that remembers answers by address cannot survive.

use super::floats::{Base, Draws};
use super::{ContentError, SlotBuffers, check_buffers, view_of};
use crate::codec::{put, read};
use crate::rng::{Pcg64, Purpose};
use crate::small_float::Overflow;
use kernelseek_core::case::{Case, Generator, Role};

/// Redraws about one element in 64, at least one, of every varying float input, in place. Integers and scales
/// keep their values, and so does unused storage. Returns the number of elements that changed; it is 0 only
/// where the case has no such input or its generators can draw but one value.
///
/// # Errors
/// The buffers are not those of the case, or a generator cannot fill its tensor.
pub fn mutate_subset(case: &Case, slot: &mut SlotBuffers<'_>, seed: u64) -> Result<usize, ContentError> {
    check_buffers(case, slot)?;
    let mut changed = 0;
    for (index, tensor) in case.tensors.iter().enumerate() {
        let Some(storage) = tensor.storage else { continue };
        let (Role::Varying, Some(generator)) = (tensor.role, &tensor.generator) else { continue };
        // What is stored of a quantised tensor is in units of its scale.
        let stored_reach = match generator {
            Generator::Normal { .. } | Generator::Uniform { .. } => None,
            Generator::Quantised { fraction, .. } => Some(fraction * tensor.dtype.max_finite()),
            _ => continue,
        };
        let view = view_of(case, tensor, storage)?;
        let Some(bytes) = slot.storages.get_mut(storage).filter(|_| !view.is_empty()) else { continue };
        let mut draws = Draws::new(tensor, seed, index, Purpose::Mutation)?;
        let unused = tensor.garbage.as_ref().map(|g| crate::codec::round_to(tensor.dtype, g.value));
        let mut places = Pcg64::for_tensor(!seed, index, Purpose::Mutation);
        let size = tensor.dtype.size();
        let wanted = (view.len() / 64).max(1);
        let mut here = 0;
        // A place that is unused or draws the value that it has is passed over; tiny tensors need many tries.
        for _ in 0..wanted + 1000 {
            if here == wanted {
                break;
            }
            let Some(at) = view.element(places.below(view.len() as u64) as usize) else { continue };
            let Some(element) = bytes.get_mut(at * size..(at + 1) * size) else { continue };
            let old = read(tensor.dtype, element, 0);
            if unused.is_some() && old == unused {
                continue;
            }
            let value = match (stored_reach, draws.base()) {
                (Some(reach), Base::Normal { .. }) => (2.0 * draws.rng().unit() - 1.0) * reach,
                _ => draws.one(),
            };
            let mut new = [0u8; 8];
            put(tensor.dtype, &[value], &mut new[..size], Overflow::Saturate);
            if *element != new[..size] {
                element.copy_from_slice(&new[..size]);
                here += 1;
            }
        }
        changed += here;
    }
    Ok(changed)
}
