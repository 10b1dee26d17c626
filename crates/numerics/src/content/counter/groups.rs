//! Which scale an element of a quantised tensor has: the twin of `ks_groups` in the device crate.

use super::super::ContentError;
use kernelseek_core::case::{MAX_RANK, TensorCase};

/// Groups of elements that share a scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Extent and group stride (0 when the axis does not index the scales) of the axes up to the last scale axis.
    axes: Vec<(usize, usize)>,
    /// Elements behind those axes: they share a group.
    block: usize,
    count: usize,
}

impl Groups {
    /// The groups of a tensor whose axes `scale_axes` index its scales.
    ///
    /// # Errors
    /// They are not distinct axes of it.
    pub fn new(tensor: &TensorCase, scale_axes: &[usize]) -> Result<Self, ContentError> {
        let extent = |axis: usize| tensor.shape.get(axis).map(|&d| d.max(0) as usize);
        let mut stride = vec![0usize; tensor.shape.len()];
        let mut count = 1;
        for (place, &axis) in scale_axes.iter().enumerate().rev() {
            let Some(d) = extent(axis).filter(|_| !scale_axes[..place].contains(&axis)) else {
                return Err(ContentError::misuse(tensor, "its scale axes are not distinct axes of it"));
            };
            stride[axis] = count;
            count *= d;
        }
        let depth = scale_axes.iter().map(|a| a + 1).max().unwrap_or(0);
        let axes = (0..depth).filter_map(|a| Some((extent(a)?, stride[a]))).collect();
        let block = (depth..tensor.shape.len()).filter_map(extent).product::<usize>().max(1);
        Ok(Self { axes, block, count })
    }

    /// Number of scales.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Elements in a row that share a group.
    #[must_use]
    pub const fn block(&self) -> usize {
        self.block
    }

    /// Group of a logical element.
    #[must_use]
    pub fn of(&self, element: usize) -> usize {
        let (mut rest, mut group) = (element / self.block, 0);
        for &(extent, stride) in self.axes.iter().rev() {
            group += rest % extent.max(1) * stride;
            rest /= extent.max(1);
        }
        group
    }

    /// The structure as the kernels take it: `ks_groups`.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let mut words = vec![self.axes.len() as u64, self.block as u64, self.count as u64];
        let mut fields = [[1; MAX_RANK], [0; MAX_RANK]];
        for (i, &(extent, stride)) in self.axes.iter().enumerate().take(MAX_RANK) {
            fields[0][i] = extent as u64;
            fields[1][i] = stride as u64;
        }
        words.extend(fields.as_flattened());
        words
    }
}
