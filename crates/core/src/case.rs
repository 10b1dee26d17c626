//! A resolved scenario: every expression of the problem evaluated, so that nothing downstream needs the
//! problem file any more.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// Largest tensor rank of the call contract.
pub const MAX_RANK: usize = 8;

/// What happens to a tensor around a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Input with new content on every call.
    Varying,
    /// Input that keeps its content for one pool of slots (weights, tables); `prepare` is called when it changes.
    Constant,
    /// Restored from a master before each call and compared as an output after it.
    Inout,
    /// Written by the call; filled with poison before it.
    Output,
}

impl Role {
    /// Whether the call reads content that the supervisor generated.
    #[must_use]
    pub const fn is_input(self) -> bool {
        matches!(self, Self::Varying | Self::Constant | Self::Inout)
    }
    /// Whether the call's result is compared.
    #[must_use]
    pub const fn is_output(self) -> bool {
        matches!(self, Self::Inout | Self::Output)
    }
}

/// The families of unusual inputs that at least a quarter of the contents are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stress {
    /// The whole tensor multiplied by one random power of two.
    Scaled,
    /// A few elements far outside the bulk.
    Outliers,
    /// Repeated rows, runs, ramps and clusters instead of independent draws.
    Structured,
    /// Zeros, denormals and values near the safe maximum mixed in.
    Extremes,
}

/// How the content of one tensor is drawn. All parameters are concrete numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Generator {
    /// Independent normal draws, rounded to the tensor's type.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
        /// What one element of every thousand is multiplied by, up to the tensor's `extreme`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outliers: Option<f64>,
    },
    /// Independent uniform draws from `[lo, hi)`.
    Uniform {
        /// Lower bound, inclusive.
        lo: f64,
        /// Upper bound, exclusive.
        hi: f64,
    },
    /// Independent uniform integers from `lo..=hi`.
    Integers {
        /// Smallest value.
        lo: i64,
        /// Largest value.
        hi: i64,
    },
    /// Random lengths from `lo..=hi`; with `total`, they sum to it.
    Lengths {
        /// Smallest length.
        lo: i64,
        /// Largest length.
        hi: i64,
        /// What the lengths add up to, if fixed.
        total: Option<i64>,
    },
    /// Exactly these values, row-major (lengths that the scenario fixes).
    Values {
        /// One value per element.
        values: Vec<f64>,
    },
    /// Exclusive running sum of `lengths`: `[0, l0, l0+l1, …]`, one element more than `lengths`.
    RowOffsets {
        /// The lengths.
        lengths: Vec<i64>,
    },
    /// Rows of distinct page ids from one random permutation of `0..pool`; row `r` uses its first `used[r]`
    /// entries, the rest are filled with page ids that no row uses (or repeat the row's last page when the
    /// pool is exhausted). Shape is (rows, pages per row).
    PageTable {
        /// Number of pages in the pool.
        pool: i64,
        /// Pages that each row uses.
        used: Vec<i64>,
    },
    /// One random permutation of `0..n` where `n` is the number of elements.
    Permutation,
    /// Normal draws quantised per group: the group's scale is `amax / (fraction × max_finite)` and goes to the
    /// tensor `scales`, whose axes are the axes `scale_axes` of this tensor. The stored value is `x / scale`.
    Quantised {
        /// Name of the tensor that receives the scales (its own generator is `FromQuantised`).
        scales: String,
        /// Axes of this tensor that index the scale tensor.
        scale_axes: Vec<usize>,
        /// Standard deviation before quantisation.
        std: f64,
        /// Share of the type's largest finite value that a group's maximum is mapped to, in (0, 1].
        fraction: f64,
    },
    /// Filled by the tensor whose `Quantised` generator names this one.
    FromQuantised,
    /// Every element the same.
    Constant {
        /// The value.
        value: f64,
    },
}

/// Storage that a call may not depend on: elements of a padded or paged tensor outside the used range are
/// set to large finite values after generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Garbage {
    /// The value written.
    pub value: f64,
    /// Used range `[start, end)` along axis 1 for each index of axis 0 (without a table), or in positions of
    /// each row of the page table (with one).
    pub start: Vec<i64>,
    /// End of the used range, exclusive.
    pub end: Vec<i64>,
    /// Name of the page table that maps (row, position / page size) to an index of axis 0; the page size is
    /// this tensor's extent along axis 1.
    pub table: Option<String>,
}

/// One tensor of a resolved scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorCase {
    /// Name, as in the call struct.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Element type.
    pub dtype: DType,
    /// Extents; empty for a scalar tensor.
    pub shape: Vec<i64>,
    /// Strides in elements, same length as `shape`.
    pub stride: Vec<i64>,
    /// First element within its storage, in elements.
    pub offset: i64,
    /// Index into [`Case::storages`]; `None` when the tensor is absent (`data == NULL`).
    pub storage: Option<usize>,
    /// Content; `None` for outputs and absent tensors.
    pub generator: Option<Generator>,
    /// Stress families this tensor may be drawn from.
    pub stress: Vec<Stress>,
    /// Largest magnitude that `extremes` may use.
    pub extreme: f64,
    /// Unused storage.
    pub garbage: Option<Garbage>,
}

impl TensorCase {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().map(|&d| d.max(0) as usize).product()
    }
    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether the elements lie densely in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1i64;
        for (&d, &s) in self.shape.iter().zip(&self.stride).rev() {
            if d > 1 && s != expected {
                return false;
            }
            expected = expected.saturating_mul(d);
        }
        true
    }
    /// Whether the tensor is present in this scenario.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.storage.is_some()
    }
}

/// A contiguous buffer that one or several tensors are views of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Name: the tensor's own, or the shared one.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub elements: usize,
    /// Requested misalignment in bytes from a 256-byte boundary (0 unless the scenario says so).
    pub misalign: usize,
}

impl Storage {
    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.elements * self.dtype.size()
    }
}

/// Value of a scalar attribute of the call struct.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeValue {
    /// `double`.
    F64(f64),
    /// `int64_t`.
    I64(i64),
}

/// How one output is compared. Numbers are concrete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Allowed multiple of the error yardstick, for the maximum and per element class.
    pub k: f64,
    /// Allowed multiple of the yardstick's RMS error.
    pub rms_k: f64,
    /// Floor in units of `epsilon × scale of the element class`.
    pub floor_ulps: f64,
    /// Absolute floor added to every bound.
    pub floor_abs: f64,
    /// Cap on RMS(error) / RMS(reference), whatever the yardstick says.
    pub rel_rms_max: Option<f64>,
    /// Replaces the yardstick by one absolute bound on every element's error.
    pub atol: Option<f64>,
    /// Whether non-finite values are allowed where, and only where, the reference has the same ones.
    pub nonfinite_matches: bool,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            k: 4.0,
            rms_k: 3.0,
            floor_ulps: 2.0,
            floor_abs: 0.0,
            rel_rms_max: None,
            atol: None,
            nonfinite_matches: false,
        }
    }
}

/// A resolved scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Scenario id.
    pub id: String,
    /// Tags, for selection and for `where` clauses.
    pub tags: Vec<String>,
    /// Tensors in the order of the call struct.
    pub tensors: Vec<TensorCase>,
    /// Buffers.
    pub storages: Vec<Storage>,
    /// Attributes in the order of the call struct.
    pub attributes: Vec<(String, AttributeValue)>,
    /// Useful floating-point operations of one call, if the problem has a cost model.
    pub flops: Option<f64>,
    /// Least bytes one call must move (each input read once, each output written once), likewise.
    pub bytes: Option<f64>,
    /// Tolerance per tensor, same order as `tensors`; `None` for pure inputs.
    pub tolerance: Vec<Option<Tolerance>>,
}

impl Case {
    /// Bytes of all storages together: one slot's size.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.storages.iter().map(Storage::bytes).sum()
    }
    /// The tensor with this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorCase> {
        self.tensors.iter().find(|t| t.name == name)
    }
}
