//! Which elements of a storage a tensor writes, each once: the twin of `view.cuh` in the device crate.

use super::super::ContentError;
use kernelseek_core::case::{MAX_RANK, TensorCase};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    extent: u64,
    stride: i64,
    step: u64,
}

/// The elements of a tensor and where they lie. The view must be one of its storage (`View::new` checks that).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    offset: i64,
    count: u64,
    first: u64,
    axes: Vec<Axis>,
}

impl Placement {
    /// Every logical element, for reading, or for writing one value everywhere.
    #[must_use]
    pub fn all(tensor: &TensorCase) -> Self {
        Self::of(tensor, false)
    }

    /// The elements that have a place of their own, for writing. Where an axis has stride 0, its last element
    /// is the one that stays, as if the elements were written in logical order.
    ///
    /// # Errors
    /// Elements overlap in another way.
    pub fn unique(tensor: &TensorCase) -> Result<Self, ContentError> {
        let placement = Self::of(tensor, true);
        let mut axes: Vec<(u64, u64)> =
            placement.axes.iter().map(|a| (a.stride.unsigned_abs(), a.extent)).collect();
        axes.sort_unstable();
        let mut reach = 0u64;
        for (stride, extent) in axes {
            if stride <= reach && placement.count > 1 {
                return Err(ContentError::misuse(tensor, "its elements overlap in storage"));
            }
            reach = reach.saturating_add(stride.saturating_mul(extent.saturating_sub(1)));
        }
        Ok(placement)
    }

    /// A dense run of `count` elements from the start of a storage.
    #[must_use]
    pub fn dense(count: usize) -> Self {
        let count = count as u64;
        Self { offset: 0, count, first: 0, axes: vec![Axis { extent: count, stride: 1, step: 1 }] }
    }

    fn of(tensor: &TensorCase, once: bool) -> Self {
        let (mut step, mut first) = (1u64, 0u64);
        let mut axes: Vec<Axis> = Vec::new();
        for (&extent, &stride) in tensor.shape.iter().zip(&tensor.stride).rev() {
            let extent = extent.max(0) as u64;
            if extent != 1 {
                if once && stride == 0 {
                    first += extent.saturating_sub(1) * step;
                } else if let Some(inner) = axes.last_mut()
                    && i64::try_from(inner.extent).ok().and_then(|e| e.checked_mul(inner.stride))
                        == Some(stride)
                    && inner.extent * inner.step == step
                {
                    inner.extent *= extent;
                } else {
                    axes.push(Axis { extent, stride, step });
                }
            }
            step = step.wrapping_mul(extent);
        }
        axes.reverse();
        let empty = tensor.is_empty();
        let count = if empty { 0 } else { axes.iter().map(|a| a.extent).product() };
        if axes.is_empty() {
            axes.push(Axis { extent: 1, stride: 1, step: 1 });
        }
        Self { offset: tensor.offset, count, first: if empty { 0 } else { first }, axes }
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// First element in storage, if all lie densely and in logical order.
    #[must_use]
    pub fn dense_at(&self) -> Option<usize> {
        let [axis] = self.axes.as_slice() else { return None };
        let dense = axis.stride == 1 && axis.step == 1 && self.first == 0;
        usize::try_from(self.offset).ok().filter(|_| dense)
    }

    /// Logical index of the last element plus one.
    #[must_use]
    pub fn logical_len(&self) -> usize {
        if self.is_empty() { 0 } else { self.locate(self.len() - 1).1 as usize + 1 }
    }

    /// Storage element and logical index of element `number`.
    #[must_use]
    pub fn locate(&self, number: usize) -> (usize, u64) {
        let (mut at, mut logical, mut rest) = (self.offset, self.first, number as u64);
        for axis in self.axes.iter().rev() {
            let index = rest % axis.extent;
            rest /= axis.extent;
            at += index as i64 * axis.stride;
            logical += index * axis.step;
        }
        (at as usize, logical)
    }

    /// The structure as the kernels take it, for a storage at `base`: `ks_view`.
    #[must_use]
    pub fn words(&self, base: u64) -> Vec<u64> {
        let mut words = vec![base, self.offset as u64, self.count, self.axes.len() as u64, self.first];
        let mut fields = [[1; MAX_RANK], [0; MAX_RANK], [0; MAX_RANK]];
        for (i, axis) in self.axes.iter().enumerate() {
            fields[0][i] = axis.extent;
            fields[1][i] = axis.stride as u64;
            fields[2][i] = axis.step;
        }
        words.extend(fields.as_flattened());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use kernelseek_core::case::Role;
    use kernelseek_core::dtype::DType;
    use proptest::prelude::*;

    fn tensor(shape: Vec<i64>, stride: Vec<i64>, offset: i64) -> TensorCase {
        TensorCase {
            name: "t".into(),
            role: Role::Varying,
            dtype: DType::I8,
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

    proptest! {
        #[test]
        fn names_the_elements_of_the_view(
            axes in prop::collection::vec((0i64..5, -6i64..7), 0..5), offset in 90i64..110,
        ) {
            let (shape, stride) = axes.into_iter().unzip();
            let t = tensor(shape, stride, offset);
            let view = View::new(&t, 400).unwrap();
            let all = Placement::all(&t);
            prop_assert_eq!(all.len(), view.len());
            for i in 0..view.len() {
                prop_assert_eq!(all.locate(i), (view.element(i).unwrap(), i as u64));
            }
            // What writing in logical order leaves behind.
            let mut last = std::collections::BTreeMap::new();
            for i in 0..view.len() {
                last.insert(view.element(i).unwrap(), i as u64);
            }
            if let Ok(unique) = Placement::unique(&t) {
                let found: std::collections::BTreeMap<_, _> = (0..unique.len()).map(|n| unique.locate(n)).collect();
                prop_assert_eq!(unique.len(), found.len());
                prop_assert_eq!(found, last);
            }
        }
    }

    #[test]
    fn dense_tensors_become_one_axis() {
        let t = tensor(vec![2, 1, 3, 4], vec![12, 99, 4, 1], 5);
        assert_eq!(Placement::all(&t).dense_at(), Some(5));
        assert_eq!(Placement::all(&t).axes.len(), 1);
        assert_eq!(Placement::unique(&tensor(vec![], vec![], 7)).unwrap().dense_at(), Some(7));
        assert!(Placement::unique(&tensor(vec![3, 3], vec![1, 1], 0)).is_err());
        assert_eq!(Placement::unique(&tensor(vec![3, 2], vec![0, 1], 0)).unwrap().len(), 2);
        assert_eq!(Placement::all(&tensor(vec![3, 0], vec![1, 1], 0)).len(), 0);
    }
}
