//! Outputs of one call as the supervisor keeps them, and their comparison.

use crate::device_data::DeviceData;
use kernelseek_core::case::{Case, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_device::protocol::Sample;
use kernelseek_numerics::codec;
use kernelseek_numerics::metrics::{self, Asked, ErrorSummary, MetricsError};
use std::borrow::Cow;

/// The bytes of one output, in row-major order, where they were computed.
#[derive(Debug, Clone)]
pub enum Data {
    /// In this machine's memory.
    Host(Vec<u8>),
    /// In memory of a GPU that no worker sees.
    Device(DeviceData),
}

/// Least bytes of an output that two contents do not share by chance.
const TELLING: usize = 64;

impl Default for Data {
    fn default() -> Self {
        Self::Host(Vec::new())
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Host(bytes)
    }
}

/// Equal bytes, wherever they lie.
impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (self, other) {
            (Self::Host(a), Self::Host(b)) => a == b,
            (Self::Device(a), Self::Device(b)) => a.equals(b),
            (Self::Device(a), Self::Host(b)) | (Self::Host(b), Self::Device(a)) => a.equals(&a.beside(b)),
        }
    }
}

impl Data {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Host(bytes) => bytes.len(),
            Self::Device(data) => data.len(),
        }
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The bytes in this machine's memory.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Host(bytes) => Cow::Borrowed(bytes),
            Self::Device(data) => Cow::Owned(data.download(0, data.len())),
        }
    }
    /// The first `most` bytes in this machine's memory.
    #[must_use]
    pub fn head(&self, most: usize) -> Cow<'_, [u8]> {
        self.piece(0, most)
    }
    /// At most `most` bytes from `from` on, in this machine's memory.
    #[must_use]
    pub fn piece(&self, from: usize, most: usize) -> Cow<'_, [u8]> {
        let from = from.min(self.len());
        let most = most.min(self.len() - from);
        match self {
            Self::Host(bytes) => Cow::Borrowed(&bytes[from..from + most]),
            Self::Device(data) => Cow::Owned(data.download(from, most)),
        }
    }
    /// Errors of `candidate` against `reference`.
    ///
    /// # Errors
    /// The lengths differ or are no whole number of elements.
    pub fn compare(dtype: DType, reference: &Self, candidate: &Self) -> Result<ErrorSummary, MetricsError> {
        Self::compare_asked(dtype, reference, candidate, Asked::Whole)
    }
    /// [`Self::compare`], with a reference that may have been asked for a part.
    ///
    /// # Errors
    /// As there.
    pub fn compare_asked(
        dtype: DType,
        reference: &Self,
        candidate: &Self,
        asked: Asked,
    ) -> Result<ErrorSummary, MetricsError> {
        match (reference, candidate) {
            (Self::Host(a), Self::Host(b)) => metrics::compare_asked(dtype, a, b, asked),
            (Self::Device(a), Self::Device(b)) => DeviceData::compare(dtype, a, b, asked),
            (Self::Host(a), Self::Device(b)) => DeviceData::compare(dtype, &b.beside(a), b, asked),
            (Self::Device(a), Self::Host(b)) => DeviceData::compare(dtype, a, &a.beside(b), asked),
        }
    }
    /// [`Self::compare`] of several pairs; those on a GPU in one go. `None` for what cannot be compared.
    #[must_use]
    pub fn compare_all(pairs: &[(DType, &Self, &Self)]) -> Vec<Option<ErrorSummary>> {
        let on_device: Option<Vec<_>> = pairs
            .iter()
            .map(|(dtype, reference, candidate)| match (reference, candidate) {
                (Self::Device(r), Self::Device(c)) if !r.is_empty() && r.len() == c.len() => {
                    Some((*dtype, r, c))
                }
                _ => None,
            })
            .collect();
        match on_device {
            Some(all) => DeviceData::compare_all(&all),
            None => pairs.iter().map(|(dtype, r, c)| Self::compare(*dtype, r, c).ok()).collect(),
        }
    }
    /// A digest under which equal bytes are found again. Only digests of data in the same place are alike.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        match self {
            Self::Host(bytes) => *blake3::hash(bytes).as_bytes(),
            Self::Device(data) => data.digest(),
        }
    }
    /// Whether the same bytes for two contents would mean anything: enough of them, and not one element over and over.
    #[must_use]
    pub fn is_telling(&self, element: usize) -> bool {
        // Of data on a device a look at the beginning has to do: to say no is never wrong.
        const LOOK: usize = 4096;
        match self {
            Self::Host(bytes) => telling(bytes, element),
            Self::Device(data) => telling(&data.download(0, data.len().min(LOOK)), element),
        }
    }
    /// Whether every byte is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Host(bytes) => bytes.iter().all(|&b| b == 0),
            Self::Device(data) => data.equals(&data.zeroed(0)),
        }
    }
    /// The same with zeros from byte `from` on.
    #[must_use]
    pub fn zeroed(&self, from: usize) -> Self {
        match self {
            Self::Host(bytes) => {
                let mut bytes = bytes.clone();
                bytes[from.min(self.len())..].fill(0);
                Self::Host(bytes)
            }
            Self::Device(data) => Self::Device(data.zeroed(from)),
        }
    }
    /// As many bytes in the same place: `pattern` over and over, or nothing where the pattern is empty.
    #[must_use]
    pub fn tiled(&self, pattern: &[u8]) -> Self {
        match self {
            Self::Host(bytes) => Self::Host(pattern.iter().copied().cycle().take(bytes.len()).collect()),
            Self::Device(data) => Self::Device(data.tiled(pattern)),
        }
    }
    /// The same with its beginning replaced.
    #[must_use]
    pub fn with_head(&self, head: &[u8]) -> Self {
        match self {
            Self::Host(bytes) => {
                let mut bytes = bytes.clone();
                let count = head.len().min(bytes.len());
                bytes[..count].copy_from_slice(&head[..count]);
                Self::Host(bytes)
            }
            Self::Device(data) => Self::Device(data.with_head(head)),
        }
    }
}

fn telling(bytes: &[u8], element: usize) -> bool {
    bytes.len() >= TELLING && bytes.chunks(element).any(|chunk| chunk != &bytes[..element])
}

/// Digest of one output.
pub type Digest = [u8; 32];

/// Digests of the outputs of several calls, where taking them all in one go is cheap: on a GPU.
#[must_use]
pub fn digests(outputs: &[Outputs]) -> Option<Vec<Vec<Digest>>> {
    let mut all = Vec::new();
    for data in outputs.iter().flat_map(|o| &o.tensors) {
        match data {
            Data::Device(data) => all.push(data),
            Data::Host(bytes) if bytes.is_empty() => {}
            Data::Host(_) => return None,
        }
    }
    let mut taken = DeviceData::digests(&all).into_iter();
    let of = |data: &Data, taken: &mut dyn Iterator<Item = [u8; 32]>| match data {
        Data::Device(_) => taken.next().unwrap_or_default(),
        Data::Host(_) => [0; 32],
    };
    Some(outputs.iter().map(|o| o.tensors.iter().map(|data| of(data, &mut taken)).collect()).collect())
}

/// Every output tensor of one call, absent outputs empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outputs {
    /// One entry a tensor of the case; pure inputs are empty.
    pub tensors: Vec<Data>,
    /// The part that was asked for, where it is not all; the rest is NaN.
    pub sample: Option<Sample>,
}

impl Outputs {
    /// Gathers the outputs of `case` from a slot's storages in this machine's memory.
    #[must_use]
    pub fn gather<'a>(case: &Case, storage: impl Fn(usize) -> &'a [u8]) -> Self {
        let tensors = case
            .tensors
            .iter()
            .map(|t| match t.storage {
                Some(index) if t.role.is_output() => Data::Host(gather_tensor(t, storage(index))),
                _ => Data::default(),
            })
            .collect();
        Self { tensors, sample: None }
    }

    /// How much of the answer was asked for.
    #[must_use]
    pub const fn asked(&self) -> Asked {
        if self.sample.is_some() { Asked::Part } else { Asked::Whole }
    }

    /// Values of tensor `index` as doubles.
    #[must_use]
    pub fn values(&self, case: &Case, index: usize) -> Vec<f64> {
        let mut values = Vec::new();
        if let (Some(data), Some(tensor)) = (self.tensors.get(index), case.tensors.get(index)) {
            // The bytes are whole elements, gathered one by one; nothing else can be wrong with them.
            let _ = codec::decode(tensor.dtype, &data.bytes(), &mut values);
        }
        values
    }
}

/// The elements of one tensor in row-major order.
fn gather_tensor(tensor: &TensorCase, storage: &[u8]) -> Vec<u8> {
    let size = tensor.dtype.size();
    let start = tensor.offset.max(0) as usize * size;
    if tensor.is_contiguous() {
        let end = start + tensor.len() * size;
        return storage.get(start..end).unwrap_or_default().to_vec();
    }
    let mut bytes = Vec::with_capacity(tensor.len() * size);
    for_each_index(&tensor.shape, |index| {
        let at: i64 = index.iter().zip(&tensor.stride).map(|(i, s)| i * s).sum();
        let at = start as i64 + at * size as i64;
        if let Some(element) = usize::try_from(at).ok().and_then(|at| storage.get(at..at + size)) {
            bytes.extend_from_slice(element);
        }
    });
    bytes
}

/// Calls `visit` with every index of `shape` in row-major order.
fn for_each_index(shape: &[i64], mut visit: impl FnMut(&[i64])) {
    if shape.iter().any(|&d| d <= 0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        visit(&index);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::case::Role;
    use kernelseek_core::dtype::DType;

    fn tensor(shape: &[i64], stride: &[i64], offset: i64) -> TensorCase {
        TensorCase {
            name: "y".into(),
            role: Role::Output,
            dtype: DType::U8,
            shape: shape.into(),
            stride: stride.into(),
            offset,
            storage: Some(0),
            generator: None,
            stress: vec![],
            extreme: 1.0,
            garbage: None,
        }
    }

    #[test]
    fn only_an_output_that_says_something_can_be_recognised() {
        let varied: Vec<u8> = (0..64).collect();
        assert!(telling(&varied, 4));
        assert!(!telling(&varied[..60], 4));
        // Zeros, or one value everywhere, come again by themselves.
        assert!(!telling(&[0; 256], 4));
        assert!(!telling(&[0, 0, 0x80, 0x3f].repeat(64), 4));
        assert!(!telling(&[], 4));
    }

    #[test]
    fn data_can_be_spoilt_on_purpose() {
        let data = Data::Host(vec![1, 2, 3, 4, 5]);
        assert_eq!(
            (&*data.piece(1, 2), &*data.piece(4, 9), &*data.piece(9, 1)),
            (&[2, 3][..], &[5][..], &[][..])
        );
        assert_eq!(data.zeroed(3), Data::Host(vec![1, 2, 3, 0, 0]));
        assert!(data.zeroed(0).is_zero() && !data.is_zero());
        assert_eq!(data.tiled(&[7, 8]), Data::Host(vec![7, 8, 7, 8, 7]));
        assert_eq!(data.with_head(&[9]), Data::Host(vec![9, 2, 3, 4, 5]));
        assert_ne!(data.digest(), data.zeroed(4).digest());
    }

    #[test]
    fn strided_outputs_are_gathered_in_row_major_order() {
        let storage: Vec<u8> = (0..24).collect();
        assert_eq!(gather_tensor(&tensor(&[2, 3], &[3, 1], 1), &storage), [1, 2, 3, 4, 5, 6]);
        assert_eq!(gather_tensor(&tensor(&[2, 2], &[8, 2], 1), &storage), [1, 3, 9, 11]);
        assert_eq!(gather_tensor(&tensor(&[3, 2], &[1, 4], 0), &storage), [0, 4, 1, 5, 2, 6]);
        assert_eq!(gather_tensor(&tensor(&[0, 2], &[9, 2], 0), &storage), Vec::<u8>::new());
    }
}
