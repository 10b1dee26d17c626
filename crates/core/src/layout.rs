//! Byte offsets of the fields of a problem's call struct.
//!
//! Every field of the struct is 8 bytes or a multiple of it, except `device`, the last, so that the layout is
//! the same for every compiler of a 64-bit target.

use crate::problem::Problem;

/// `abi` of the call struct this crate describes.
pub const ABI: u32 = 1;

/// Size of a `ks_tensor` in bytes: pointer, dtype, rank, eight extents, eight strides.
pub const TENSOR_SIZE: usize = 8 + 8 + 8 * 8 + 8 * 8;

/// Offset of `ks_tensor.data`.
pub const TENSOR_DATA: usize = 0;
/// Offset of `ks_tensor.dtype`.
pub const TENSOR_DTYPE: usize = 8;
/// Offset of `ks_tensor.rank`.
pub const TENSOR_RANK: usize = 12;
/// Offset of `ks_tensor.shape`.
pub const TENSOR_SHAPE: usize = 16;
/// Offset of `ks_tensor.stride`.
pub const TENSOR_STRIDE: usize = 80;

/// Byte offsets of the fields of one problem's call struct; `struct_size` is at 0 and `abi` at 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLayout {
    /// Offset of each tensor, in the order of the problem.
    pub tensors: Vec<usize>,
    /// Offset of each attribute, in the order of the problem.
    pub attributes: Vec<usize>,
    /// Offset of `workspace`.
    pub workspace: usize,
    /// Offset of `workspace_bytes`.
    pub workspace_bytes: usize,
    /// Offset of `stream`.
    pub stream: usize,
    /// Offset of `device`.
    pub device: usize,
    /// `sizeof` the struct.
    pub size: usize,
}

impl CallLayout {
    /// Layout of a struct with this many tensors and attributes.
    #[must_use]
    pub fn new(tensors: usize, attributes: usize) -> Self {
        let first_attribute = 8 + tensors * TENSOR_SIZE;
        let workspace = first_attribute + attributes * 8;
        Self {
            tensors: (0..tensors).map(|i| 8 + i * TENSOR_SIZE).collect(),
            attributes: (0..attributes).map(|i| first_attribute + i * 8).collect(),
            workspace,
            workspace_bytes: workspace + 8,
            stream: workspace + 16,
            device: workspace + 24,
            size: workspace + 32,
        }
    }

    /// Layout of the call struct of `problem`.
    #[must_use]
    pub fn of(problem: &Problem) -> Self {
        Self::new(problem.tensors.len(), problem.attributes.len())
    }
}
