//! Contents whose every value depends on its index alone, so that a GPU can fill them: stream `ks-counter-1`.
//!
//! The same generators and stress families as [`super::fill`], drawn by counter instead of in order. [`steps`] says
//! what has to be written; a device does that with its kernels (`helpers` in the device crate), and [`execute`] here
//! does it on host buffers, bit for bit the same. Integers with a meaning (lengths, offsets, page tables,
//! permutations) are drawn on the host from `ks-pcg64-1` as ever and are part of the steps.

mod groups;
mod host;
mod mutation;
mod placement;
mod plan;

pub use groups::Groups;
pub use host::{execute, fill, fill_selected, mutate, mutate_subset};
pub use mutation::{Mutation, MutationStep, mutations};
pub use placement::Placement;
pub use plan::{Key, Plan};

use super::garbage::{self, PageTable};
use super::{Content, ContentError, Writer, gap_value, structural, view_of};
use crate::codec;
use crate::small_float::Overflow;
use crate::view::View;
use kernelseek_core::case::{Case, Generator, TensorCase};
use kernelseek_core::dtype::DType;

/// Name of the stream in records.
pub const STREAM: &str = "ks-counter-1";

/// One thing to write. Steps are done in order: later ones may write over earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Storage.
    pub storage: usize,
    /// Element type of the storage.
    pub dtype: DType,
    /// Elements.
    pub placement: Placement,
    /// What they become.
    pub what: What,
}

/// What elements become.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The same bits everywhere (in the low bytes).
    Constant(u64),
    /// These elements, dense and in logical order.
    Values(Vec<u8>),
    /// Drawn.
    Drawn(Plan),
    /// Drawn, and divided by the scale of the group.
    Quantised(Box<Quantised>),
    /// The same bits in some ranges (start, length) of logical elements.
    Ranges {
        /// Sorted, not empty, none longer than [`LONGEST_RANGE`].
        ranges: Vec<(u64, u64)>,
        /// The bits.
        element: u64,
    },
}

/// A range of [`What::Ranges`] is at most this long, so that many threads share a long one.
pub const LONGEST_RANGE: u64 = 1 << 16;

/// A tensor with scales.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantised {
    /// The values before they are divided.
    pub plan: Plan,
    /// Which scale an element has.
    pub groups: Groups,
    /// The stored magnitude that a group's largest value becomes.
    pub target: f64,
    /// Storage of the scales.
    pub scale_storage: usize,
    /// Their type.
    pub scale_dtype: DType,
    /// Their elements.
    pub scale_placement: Placement,
}

/// The bits of one element, saturating, in the low bytes.
#[must_use]
pub fn element_bits(dtype: DType, value: f64) -> u64 {
    let mut bytes = [0; 8];
    codec::put(dtype, &[value], &mut bytes[..dtype.size()], Overflow::Saturate);
    u64::from_le_bytes(bytes)
}

/// What has to be written to fill the inputs that `selected` picks; as [`super::fill_selected`].
///
/// `table` gives the elements, dense and in logical order, of a page table that is not picked while a tensor whose
/// unused pages it decides is.
///
/// # Errors
/// A generator cannot fill its tensor, or a tensor's elements overlap.
pub fn steps(
    case: &Case,
    content: Content,
    selected: impl Fn(&TensorCase) -> bool,
    table: impl Fn(&TensorCase) -> Option<Vec<u8>>,
) -> Result<Vec<Step>, ContentError> {
    let inputs: Vec<(usize, &TensorCase, usize)> = case
        .tensors
        .iter()
        .enumerate()
        .filter(|(_, t)| t.role.is_input())
        .filter_map(|(index, t)| Some((index, t, t.storage?)))
        .collect();
    let mut steps = gaps(case, &inputs, &selected)?;
    let mut structural = Vec::new();
    for &(index, tensor, storage) in inputs.iter().filter(|(_, t, _)| selected(t)) {
        let Some(generator) = &tensor.generator else {
            return Err(ContentError::NoGenerator { tensor: tensor.name.clone() });
        };
        if case.storages.get(storage).is_none_or(|s| s.dtype != tensor.dtype) {
            return Err(ContentError::Storage { tensor: tensor.name.clone() });
        }
        view_of(case, tensor, storage)?;
        let what = match generator {
            Generator::Normal { .. } | Generator::Uniform { .. } => {
                What::Drawn(Plan::new(tensor, content, index)?)
            }
            Generator::Constant { value } => What::Constant(element_bits(tensor.dtype, *value)),
            Generator::Quantised { scales, scale_axes, fraction, .. } => {
                quantised(case, tensor, scales, scale_axes, *fraction, Plan::new(tensor, content, index)?)?
            }
            Generator::FromQuantised => {
                super::check_owned(case, tensor)?;
                continue;
            }
            _ => {
                let packed = dense_elements(tensor, generator, content, index)?;
                structural.push((tensor.name.as_str(), packed.clone()));
                What::Values(packed)
            }
        };
        let placement = Placement::unique(tensor)?;
        if !placement.is_empty() {
            steps.push(Step { storage, dtype: tensor.dtype, placement, what });
        }
    }
    for &(_, tensor, storage) in &inputs {
        let Some(unused) = &tensor.garbage else { continue };
        let of_table = unused.table.as_ref().and_then(|name| case.tensor(name));
        if !selected(tensor) {
            if of_table.is_some_and(&selected) {
                return Err(ContentError::misuse(tensor, "its page table changes and it does not"));
            }
            continue;
        }
        let pages = of_table.and_then(|t| {
            let drawn = structural.iter().find(|(name, _)| *name == t.name).map(|(_, bytes)| bytes.clone());
            PageTable::packed(t, &drawn.or_else(|| table(t))?)
        });
        let (used, inner) = garbage::used_blocks(case, tensor, unused, pages)?;
        let ranges = unused_ranges(&used, inner as u64);
        if !ranges.is_empty() {
            steps.push(Step {
                storage,
                dtype: tensor.dtype,
                placement: Placement::all(tensor),
                what: What::Ranges { ranges, element: element_bits(tensor.dtype, unused.value) },
            });
        }
    }
    Ok(steps)
}

/// Storages whose views leave gaps are filled first.
fn gaps(
    case: &Case,
    inputs: &[(usize, &TensorCase, usize)],
    selected: &impl Fn(&TensorCase) -> bool,
) -> Result<Vec<Step>, ContentError> {
    let mut steps = Vec::new();
    for (index, storage) in case.storages.iter().enumerate() {
        if super::needs_gaps(case, index, inputs, selected)? && storage.elements > 0 {
            steps.push(Step {
                storage: index,
                dtype: storage.dtype,
                placement: Placement::dense(storage.elements),
                what: What::Constant(element_bits(storage.dtype, gap_value(storage.dtype))),
            });
        }
    }
    Ok(steps)
}

fn quantised(
    case: &Case,
    tensor: &TensorCase,
    scales: &str,
    axes: &[usize],
    fraction: f64,
    plan: Plan,
) -> Result<What, ContentError> {
    super::quantised::check_fraction(tensor, fraction)?;
    let Some(scale_tensor) = case.tensor(scales) else {
        return Err(ContentError::misuse(tensor, format!("there is no scale tensor `{scales}`")));
    };
    let groups = Groups::new(tensor, axes)?;
    // Where the scale tensor is absent, the scale is 1.
    let Some(storage) = scale_tensor.storage else { return Ok(What::Drawn(plan)) };
    super::quantised::check_scale_tensor(tensor, scale_tensor, axes)?;
    view_of(case, scale_tensor, storage)?;
    let placement = Placement::unique(scale_tensor)?;
    if placement.len() != scale_tensor.len() {
        return Err(ContentError::misuse(scale_tensor, "its elements overlap in storage"));
    }
    Ok(What::Quantised(Box::new(Quantised {
        plan,
        groups,
        target: fraction * tensor.dtype.max_finite(),
        scale_storage: storage,
        scale_dtype: scale_tensor.dtype,
        scale_placement: placement,
    })))
}

/// The elements of a tensor that is drawn on the host.
fn dense_elements(
    tensor: &TensorCase,
    generator: &Generator,
    content: Content,
    index: usize,
) -> Result<Vec<u8>, ContentError> {
    let mut dense = tensor.clone();
    dense.offset = 0;
    let mut stride = 1;
    for (to, extent) in dense.stride.iter_mut().zip(&tensor.shape).rev() {
        *to = stride;
        stride = stride.saturating_mul((*extent).max(1));
    }
    let view = View::new(&dense, tensor.len())?;
    let mut bytes = vec![0; tensor.len() * tensor.dtype.size()];
    let mut out = Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes: &mut bytes };
    match generator {
        Generator::Values { values } => {
            super::check_values(tensor, values)?;
            out.floats(values);
        }
        _ => structural::fill(tensor, generator, content, index, out)?,
    }
    Ok(bytes)
}

/// Logical elements of the blocks that are not used, in pieces.
fn unused_ranges(used: &[bool], inner: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut block = 0;
    while block < used.len() {
        let length = used[block..].iter().take_while(|&&u| u == used[block]).count();
        if !used[block] {
            let (mut start, end) = (block as u64 * inner, (block + length) as u64 * inner);
            while start < end {
                let piece = (end - start).min(LONGEST_RANGE);
                ranges.push((start, piece));
                start += piece;
            }
        }
        block += length;
    }
    ranges
}
