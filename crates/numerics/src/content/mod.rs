//! Contents: the actual numbers of one call, drawn from a seed.
//!
//! Every tensor has its own stream, so its values depend on the seed and on its place in the case, never on
//! the layout of its storage or on which other tensors are filled.

mod audit;
pub mod counter;
mod floats;
mod garbage;
mod plan;
mod quantised;
mod stream;
mod structural;

pub use audit::mutate_subset;
pub use stream::{content_stream, fixed_contents, stress_families};

use crate::codec;
use crate::small_float::Overflow;
use crate::view::{Cursor, View, ViewError};
use floats::Floats;
use kernelseek_core::case::{Case, Generator, Stress, TensorCase};
use kernelseek_core::dtype::DType;

/// Elements that are drawn at a time. Even, because two narrow draws share 64 bits: part of the format.
const CHUNK: usize = 1024;

/// What a content is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Distribution {
    /// As the problem's generators say.
    Nominal,
    /// Tensors that list this family are drawn from it, the others as their generators say.
    Stress(Stress),
}

/// One content of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Content {
    /// What it is drawn from.
    pub distribution: Distribution,
    /// Seed.
    pub seed: u64,
}

/// The storages of one slot, indexed as `Case::storages`; each exactly as long as the case says.
#[derive(Debug)]
pub struct SlotBuffers<'a> {
    /// One slice per storage.
    pub storages: Vec<&'a mut [u8]>,
}

impl<'a> SlotBuffers<'a> {
    /// From one slice per storage.
    #[must_use]
    pub const fn new(storages: Vec<&'a mut [u8]>) -> Self {
        Self { storages }
    }
}

/// Why a content cannot be generated. All of these are faults of the problem or of the caller.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ContentError {
    /// Not one buffer per storage.
    #[error("{given} buffers for {expected} storages")]
    Buffers {
        /// Buffers given.
        given: usize,
        /// Storages of the case.
        expected: usize,
    },
    /// A buffer of the wrong size.
    #[error("storage `{storage}` needs {expected} bytes and has {given}")]
    BufferSize {
        /// Storage.
        storage: String,
        /// Bytes given.
        given: usize,
        /// Bytes of the storage.
        expected: usize,
    },
    /// A tensor names a storage that does not exist, or one of another element type.
    #[error("tensor `{tensor}` is not a view of its storage")]
    Storage {
        /// Tensor.
        tensor: String,
    },
    /// A tensor does not fit its storage.
    #[error(transparent)]
    View(#[from] ViewError),
    /// An input without a generator.
    #[error("input `{tensor}` has no generator")]
    NoGenerator {
        /// Tensor.
        tensor: String,
    },
    /// A generator that cannot fill this tensor.
    #[error("tensor `{tensor}`: {reason}")]
    Misuse {
        /// Tensor.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
}

impl ContentError {
    fn misuse(tensor: &TensorCase, reason: impl Into<String>) -> Self {
        Self::Misuse { tensor: tensor.name.clone(), reason: reason.into() }
    }
}

/// Fills every input of a slot.
///
/// Storage between the elements of strided views is set to a large finite value. Outputs are not touched,
/// unless they lie in a storage that an input also uses: poison afterwards.
///
/// # Errors
/// The buffers are not those of the case, or a generator cannot fill its tensor.
pub fn fill(case: &Case, content: Content, slot: &mut SlotBuffers<'_>) -> Result<(), ContentError> {
    fill_selected(case, content, slot, |_| true)
}

/// Fills the inputs that `selected` picks: the constants once for a pool, the others per call.
///
/// A scale tensor is filled with the tensor that is quantised into it. Gaps of strided storages are filled
/// when all inputs of the storage are picked.
///
/// # Errors
/// As [`fill`]; also when a page table is picked without the tensor whose unused pages it decides.
pub fn fill_selected(
    case: &Case,
    content: Content,
    slot: &mut SlotBuffers<'_>,
    selected: impl Fn(&TensorCase) -> bool,
) -> Result<(), ContentError> {
    check_buffers(case, slot)?;
    let inputs: Vec<(usize, &TensorCase, usize)> = case
        .tensors
        .iter()
        .enumerate()
        .filter(|(_, t)| t.role.is_input())
        .filter_map(|(index, t)| Some((index, t, t.storage?)))
        .collect();
    fill_gaps(case, slot, &inputs, &selected)?;
    for &(index, tensor, storage) in &inputs {
        if selected(tensor) {
            fill_tensor(case, content, slot, (index, tensor, storage))?;
        }
    }
    // Garbage follows everything else: it needs the page tables.
    for &(_, tensor, storage) in &inputs {
        let Some(unused) = &tensor.garbage else { continue };
        if selected(tensor) {
            garbage::apply(case, slot, tensor, storage, unused)?;
        } else if unused.table.as_ref().and_then(|name| case.tensor(name)).is_some_and(&selected) {
            return Err(ContentError::misuse(tensor, "its page table changes and it does not"));
        }
    }
    Ok(())
}

fn check_buffers(case: &Case, slot: &SlotBuffers<'_>) -> Result<(), ContentError> {
    if slot.storages.len() != case.storages.len() {
        return Err(ContentError::Buffers { given: slot.storages.len(), expected: case.storages.len() });
    }
    for (storage, buffer) in case.storages.iter().zip(&slot.storages) {
        if buffer.len() != storage.bytes() {
            return Err(ContentError::BufferSize {
                storage: storage.name.clone(),
                given: buffer.len(),
                expected: storage.bytes(),
            });
        }
    }
    for tensor in &case.tensors {
        if let Some(index) = tensor.storage
            && case.storages.get(index).is_none_or(|s| s.dtype != tensor.dtype)
        {
            return Err(ContentError::Storage { tensor: tensor.name.clone() });
        }
    }
    Ok(())
}

fn view_of(case: &Case, tensor: &TensorCase, storage: usize) -> Result<View, ContentError> {
    let elements = case.storages.get(storage).map_or(0, |s| s.elements);
    Ok(View::new(tensor, elements)?)
}

/// What lies between the elements of strided views: large, finite, and of no use to anybody.
fn gap_value(dtype: DType) -> f64 {
    (dtype.max_finite() / 4.0).min(1e4)
}

fn fill_gaps(
    case: &Case,
    slot: &mut SlotBuffers<'_>,
    inputs: &[(usize, &TensorCase, usize)],
    selected: &impl Fn(&TensorCase) -> bool,
) -> Result<(), ContentError> {
    for (index, (storage, buffer)) in case.storages.iter().zip(&mut slot.storages).enumerate() {
        if needs_gaps(case, index, inputs, selected)? {
            tile(storage.dtype, gap_value(storage.dtype), buffer);
        }
    }
    Ok(())
}

/// Whether a storage is used, by picked inputs only, and no input covers all of it.
fn needs_gaps(
    case: &Case,
    index: usize,
    inputs: &[(usize, &TensorCase, usize)],
    selected: &impl Fn(&TensorCase) -> bool,
) -> Result<bool, ContentError> {
    let elements = case.storages.get(index).map_or(0, |s| s.elements);
    let (mut used, mut covered, mut all) = (false, false, true);
    for (_, tensor, _) in inputs.iter().filter(|(_, _, s)| *s == index) {
        let view = view_of(case, tensor, index)?;
        used = true;
        covered |= view.is_dense() && view.len() == elements;
        all &= selected(tensor);
    }
    Ok(used && all && !covered)
}

fn check_values(tensor: &TensorCase, values: &[f64]) -> Result<(), ContentError> {
    if values.len() == tensor.len() {
        return Ok(());
    }
    Err(ContentError::misuse(tensor, format!("{} values for {} elements", values.len(), tensor.len())))
}

/// A scale tensor is filled by the tensor that is quantised into it.
fn check_owned(case: &Case, scales: &TensorCase) -> Result<(), ContentError> {
    let owns = |t: &TensorCase| matches!(&t.generator, Some(Generator::Quantised { scales: s, .. }) if *s == scales.name);
    if case.tensors.iter().any(owns) {
        return Ok(());
    }
    Err(ContentError::misuse(scales, "no tensor is quantised into it"))
}

/// Fills `bytes` with one value.
fn tile(dtype: DType, value: f64, bytes: &mut [u8]) {
    let mut element = [0u8; 8];
    let element = &mut element[..dtype.size()];
    codec::put(dtype, &[value], element, Overflow::Saturate);
    bytes.chunks_exact_mut(element.len()).for_each(|c| c.copy_from_slice(element));
}

fn fill_tensor(
    case: &Case,
    content: Content,
    slot: &mut SlotBuffers<'_>,
    (index, tensor, storage): (usize, &TensorCase, usize),
) -> Result<(), ContentError> {
    let Some(generator) = &tensor.generator else {
        return Err(ContentError::NoGenerator { tensor: tensor.name.clone() });
    };
    let view = view_of(case, tensor, storage)?;
    let Some(buffer) = slot.storages.get_mut(storage) else {
        return Err(ContentError::Storage { tensor: tensor.name.clone() });
    };
    match generator {
        Generator::Normal { .. } | Generator::Uniform { .. } => {
            let mut floats = Floats::new(tensor, content, index)?;
            let mut chunk = [0.0; CHUNK];
            let mut out = Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes: buffer };
            let mut left = view.len();
            while left > 0 {
                let part = &mut chunk[..left.min(CHUNK)];
                floats.fill(part);
                out.floats(part);
                left -= part.len();
            }
        }
        Generator::Constant { value } => {
            let mut out = Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes: buffer };
            out.constant(*value, view.len());
        }
        Generator::Values { values } => {
            check_values(tensor, values)?;
            Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes: buffer }.floats(values);
        }
        Generator::Quantised { scales, scale_axes, fraction, .. } => {
            quantised::fill(
                case,
                slot,
                &quantised::Job { tensor, view: &view, storage, scales, scale_axes, fraction: *fraction },
                &Floats::new(tensor, content, index)?,
            )?;
        }
        Generator::FromQuantised => check_owned(case, tensor)?,
        Generator::Integers { .. }
        | Generator::Lengths { .. }
        | Generator::RowOffsets { .. }
        | Generator::PageTable { .. }
        | Generator::Permutation => {
            let out = Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes: buffer };
            structural::fill(tensor, generator, content, index, out)?;
        }
    }
    Ok(())
}

/// Converts values and puts them where the next elements of a view lie.
struct Writer<'v, 'b> {
    dtype: DType,
    cursor: Cursor<'v>,
    bytes: &'b mut [u8],
}

impl Writer<'_, '_> {
    fn spans<T>(&mut self, values: &[T], put: impl Fn(DType, &[T], &mut [u8])) {
        let size = self.dtype.size();
        let mut done = 0;
        while let Some((at, count)) = self.cursor.next_span(values.len() - done) {
            if let Some(bytes) = self.bytes.get_mut(at * size..(at + count) * size) {
                put(self.dtype, &values[done..done + count], bytes);
            }
            done += count;
        }
    }

    fn floats(&mut self, values: &[f64]) {
        self.spans(values, |dtype, v, b| codec::put(dtype, v, b, Overflow::Saturate));
    }

    fn integers(&mut self, values: &[i64]) {
        self.spans(values, codec::put_i64);
    }

    fn constant(&mut self, value: f64, count: usize) {
        let size = self.dtype.size();
        let mut done = 0;
        while let Some((at, span)) = self.cursor.next_span(count - done) {
            if let Some(bytes) = self.bytes.get_mut(at * size..(at + span) * size) {
                tile(self.dtype, value, bytes);
            }
            done += span;
        }
    }
}
