//! Strided views: the logical (row-major) order of a tensor's elements, and where each lies in its storage.

use kernelseek_core::case::{MAX_RANK, TensorCase};

/// Why a tensor cannot be a view of a storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Shape and stride differ in length, or exceed the largest rank.
    #[error("tensor `{tensor}` has {shape} extents and {stride} strides")]
    Rank {
        /// Tensor.
        tensor: String,
        /// Number of extents.
        shape: usize,
        /// Number of strides.
        stride: usize,
    },
    /// A negative extent, or an element count beyond the address space.
    #[error("tensor `{tensor}` has an impossible shape")]
    Shape {
        /// Tensor.
        tensor: String,
    },
    /// An element lies outside the storage.
    #[error("tensor `{tensor}` reaches elements {first}..={last} of a storage of {elements}")]
    Range {
        /// Tensor.
        tensor: String,
        /// Lowest element reached.
        first: i128,
        /// Highest element reached.
        last: i128,
        /// Elements of the storage.
        elements: usize,
    },
    /// The storage's bytes are not the storage's size.
    #[error("the storage of tensor `{tensor}` has {bytes} bytes")]
    Bytes {
        /// Tensor.
        tensor: String,
        /// Bytes given.
        bytes: usize,
    },
}

/// A checked view: every element it names lies inside its storage.
#[derive(Debug, Clone)]
pub struct View {
    /// Outer extents and strides; the innermost `run` elements are contiguous.
    outer: Vec<(usize, i64)>,
    run: usize,
    offset: i64,
    len: usize,
    dense: bool,
}

impl View {
    /// The view that `tensor` describes of a storage of `elements` elements.
    ///
    /// # Errors
    /// The shape is impossible, or some element would lie outside the storage.
    pub fn new(tensor: &TensorCase, elements: usize) -> Result<Self, ViewError> {
        let name = || tensor.name.clone();
        let rank = tensor.shape.len();
        if rank != tensor.stride.len() || rank > MAX_RANK {
            return Err(ViewError::Rank { tensor: name(), shape: rank, stride: tensor.stride.len() });
        }
        let mut len = 1usize;
        let (mut first, mut last) = (i128::from(tensor.offset), i128::from(tensor.offset));
        for (&extent, &stride) in tensor.shape.iter().zip(&tensor.stride) {
            let extent = usize::try_from(extent).map_err(|_| ViewError::Shape { tensor: name() })?;
            len = len.checked_mul(extent).ok_or_else(|| ViewError::Shape { tensor: name() })?;
            let reach = (extent as i128 - 1).max(0) * i128::from(stride);
            first += reach.min(0);
            last += reach.max(0);
        }
        if len > 0 && (first < 0 || last >= elements as i128) {
            return Err(ViewError::Range { tensor: name(), first, last, elements });
        }
        let mut outer: Vec<(usize, i64)> = tensor
            .shape
            .iter()
            .zip(&tensor.stride)
            .filter(|(extent, _)| **extent != 1)
            .map(|(&extent, &stride)| (extent as usize, stride))
            .collect();
        let mut run = 1usize;
        while let Some(&(extent, stride)) = outer.last() {
            if stride != run as i64 {
                break;
            }
            run *= extent;
            outer.pop();
        }
        let dense = outer.is_empty();
        Ok(Self { outer, run, offset: tensor.offset, len, dense })
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether logical order is storage order without gaps.
    #[must_use]
    pub const fn is_dense(&self) -> bool {
        self.dense
    }

    /// A cursor at a logical index.
    #[must_use]
    pub fn cursor(&self, logical: usize) -> Cursor<'_> {
        let mut cursor = Cursor { view: self, index: [0; MAX_RANK], base: self.offset, within: 0, left: 0 };
        if logical < self.len {
            cursor.left = self.len - logical;
            cursor.within = logical % self.run;
            let mut rest = logical / self.run;
            for (axis, &(extent, stride)) in self.outer.iter().enumerate().rev() {
                cursor.index[axis] = rest % extent;
                rest /= extent;
                cursor.base += cursor.index[axis] as i64 * stride;
            }
        }
        cursor
    }

    /// Storage element of a logical index; `None` past the end.
    #[must_use]
    pub fn element(&self, logical: usize) -> Option<usize> {
        self.cursor(logical).next_span(1).map(|(at, _)| at)
    }
}

/// Walks a view in logical order, one contiguous span at a time.
#[derive(Debug, Clone)]
pub struct Cursor<'v> {
    view: &'v View,
    index: [usize; MAX_RANK],
    base: i64,
    within: usize,
    left: usize,
}

impl Cursor<'_> {
    /// The next contiguous span: its first storage element and its length, at most `limit`. `None` at the end.
    #[inline]
    pub fn next_span(&mut self, limit: usize) -> Option<(usize, usize)> {
        if self.left == 0 || limit == 0 {
            return None;
        }
        // Not negative: the view was checked when it was made.
        let at = self.base as usize + self.within;
        let count = (self.view.run - self.within).min(limit).min(self.left);
        self.left -= count;
        self.within += count;
        if self.within == self.view.run {
            self.within = 0;
            for (axis, &(extent, stride)) in self.view.outer.iter().enumerate().rev() {
                self.index[axis] += 1;
                self.base += stride;
                if self.index[axis] < extent {
                    break;
                }
                self.base -= stride * extent as i64;
                self.index[axis] = 0;
            }
        }
        Some((at, count))
    }
}

/// Calls `each(bytes, logical start)` for the contiguous spans of `count` logical elements from `start`.
pub(crate) fn for_each_span(
    view: &View,
    size: usize,
    (start, count): (usize, usize),
    mut each: impl FnMut(std::ops::Range<usize>, usize),
) {
    let mut cursor = view.cursor(start);
    let mut done = 0;
    while let Some((at, span)) = cursor.next_span(count - done) {
        each(at * size..(at + span) * size, start + done);
        done += span;
    }
}

fn checked(tensor: &TensorCase, bytes: usize) -> Result<View, ViewError> {
    let size = tensor.dtype.size();
    if !bytes.is_multiple_of(size) {
        return Err(ViewError::Bytes { tensor: tensor.name.clone(), bytes });
    }
    View::new(tensor, bytes / size)
}

/// Replaces `out` by the tensor's elements in logical order, densely.
///
/// # Errors
/// The tensor is no view of `storage`.
pub fn pack(tensor: &TensorCase, storage: &[u8], out: &mut Vec<u8>) -> Result<(), ViewError> {
    let view = checked(tensor, storage.len())?;
    out.clear();
    out.reserve(view.len() * tensor.dtype.size());
    for_each_span(&view, tensor.dtype.size(), (0, view.len()), |range, _| {
        if let Some(bytes) = storage.get(range) {
            out.extend_from_slice(bytes);
        }
    });
    Ok(())
}

/// Writes dense elements in logical order (as [`pack`] gives them) to where the tensor has them.
///
/// # Errors
/// The tensor is no view of `storage`, or `packed` has another size.
pub fn unpack(tensor: &TensorCase, packed: &[u8], storage: &mut [u8]) -> Result<(), ViewError> {
    let view = checked(tensor, storage.len())?;
    let size = tensor.dtype.size();
    if packed.len() != view.len() * size {
        return Err(ViewError::Bytes { tensor: tensor.name.clone(), bytes: packed.len() });
    }
    for_each_span(&view, size, (0, view.len()), |range, logical| {
        let count = range.len();
        storage[range].copy_from_slice(&packed[logical * size..][..count]);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::case::Role;
    use kernelseek_core::dtype::DType;
    use proptest::prelude::*;

    fn tensor(shape: Vec<i64>, stride: Vec<i64>, offset: i64) -> TensorCase {
        TensorCase {
            name: "t".into(),
            role: Role::Varying,
            dtype: DType::I16,
            shape,
            stride,
            offset,
            storage: Some(0),
            generator: None,
            stress: vec![],
            extreme: 0.0,
            garbage: None,
        }
    }

    /// The definition, without any merging of axes.
    fn elements(t: &TensorCase) -> Vec<usize> {
        let mut all = vec![t.offset];
        for (&d, &s) in t.shape.iter().zip(&t.stride) {
            all = all.iter().flat_map(|&e| (0..d).map(move |i| e + i * s)).collect();
        }
        all.into_iter().map(|e| usize::try_from(e).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn spans_cover_the_definition(
            axes in proptest::collection::vec((0i64..5, -7i64..8), 0..5),
            dense_tail in any::<bool>(), limit in 1usize..9, skip in 0usize..40,
        ) {
            let shape: Vec<i64> = axes.iter().map(|a| a.0).collect();
            let mut stride: Vec<i64> = axes.iter().map(|a| a.1).collect();
            if dense_tail && shape.len() >= 2 {
                let n = shape.len();
                stride[n - 1] = 1;
                stride[n - 2] = shape[n - 1];
            }
            let t = tensor(shape, stride, 200);
            let view = View::new(&t, 400).unwrap();
            let expected = elements(&t);
            prop_assert_eq!(view.len(), expected.len());
            let skip = skip.min(expected.len());
            let mut seen = Vec::new();
            let mut cursor = view.cursor(skip);
            while let Some((at, count)) = cursor.next_span(limit) {
                seen.extend(at..at + count);
            }
            prop_assert_eq!(&seen[..], &expected[skip..]);
            if let Some(last) = expected.len().checked_sub(1) {
                prop_assert_eq!(view.element(last), Some(expected[last]));
            }
            prop_assert_eq!(view.element(expected.len()), None);
        }
    }

    #[test]
    fn pack_and_unpack_are_inverse() {
        let t = tensor(vec![2, 3, 2], vec![20, 4, 1], 3);
        let storage: Vec<u8> = (0..80u8).collect();
        let mut packed = Vec::new();
        pack(&t, &storage, &mut packed).unwrap();
        assert_eq!(&packed[..8], &[6, 7, 8, 9, 14, 15, 16, 17]);
        let mut back = vec![0; 80];
        unpack(&t, &packed, &mut back).unwrap();
        let mut again = Vec::new();
        pack(&t, &back, &mut again).unwrap();
        assert_eq!(packed, again);
        assert_eq!(back.iter().filter(|&&b| b != 0).count(), 24);
        assert!(unpack(&t, &packed[1..], &mut back).is_err());
        assert!(pack(&t, &storage[1..], &mut packed).is_err());
    }

    #[test]
    fn views_outside_their_storage_are_refused() {
        for (shape, stride, offset) in [
            (vec![4], vec![1], 7),
            (vec![4], vec![-1], 2),
            (vec![2], vec![i64::MAX], 0),
            (vec![1], vec![1], -1),
            (vec![-1], vec![1], 0),
            (vec![i64::MAX, i64::MAX], vec![0, 0], 0),
            (vec![2, 2], vec![1], 0),
        ] {
            assert!(View::new(&tensor(shape, stride, offset), 10).is_err());
        }
        assert!(View::new(&tensor(vec![0], vec![1], 99), 10).is_ok());
        assert!(View::new(&tensor(vec![], vec![], 9), 10).unwrap().is_dense());
    }
}
