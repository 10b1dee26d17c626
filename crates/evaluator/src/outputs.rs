//! Outputs of one call as the supervisor keeps them, and their comparison.

use kernelseek_core::case::{Case, TensorCase};
use kernelseek_numerics::codec;

/// Bytes of every output tensor of one call, in row-major order, absent outputs empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outputs {
    /// One entry a tensor of the case; pure inputs are empty.
    pub tensors: Vec<Vec<u8>>,
}

impl Outputs {
    /// Gathers the outputs of `case` from a slot's storages.
    #[must_use]
    pub fn gather<'a>(case: &Case, storage: impl Fn(usize) -> &'a [u8]) -> Self {
        let tensors = case
            .tensors
            .iter()
            .map(|t| match t.storage {
                Some(index) if t.role.is_output() => gather_tensor(t, storage(index)),
                _ => Vec::new(),
            })
            .collect();
        Self { tensors }
    }

    /// Values of tensor `index` as doubles.
    #[must_use]
    pub fn values(&self, case: &Case, index: usize) -> Vec<f64> {
        let mut values = Vec::new();
        if let (Some(bytes), Some(tensor)) = (self.tensors.get(index), case.tensors.get(index)) {
            // The bytes are whole elements, gathered one by one; nothing else can be wrong with them.
            let _ = codec::decode(tensor.dtype, bytes, &mut values);
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
    fn strided_outputs_are_gathered_in_row_major_order() {
        let storage: Vec<u8> = (0..24).collect();
        assert_eq!(gather_tensor(&tensor(&[2, 3], &[3, 1], 1), &storage), [1, 2, 3, 4, 5, 6]);
        assert_eq!(gather_tensor(&tensor(&[2, 2], &[8, 2], 1), &storage), [1, 3, 9, 11]);
        assert_eq!(gather_tensor(&tensor(&[3, 2], &[1, 4], 0), &storage), [0, 4, 1, 5, 2, 6]);
        assert_eq!(gather_tensor(&tensor(&[0, 2], &[9, 2], 0), &storage), Vec::<u8>::new());
    }
}
