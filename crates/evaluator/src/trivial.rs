//! Trivial candidates: answers that compute nothing. A scenario that accepts one of them proves nothing about any
//! candidate, so `check` refuses it.

use crate::outputs::Outputs;
use kernelseek_core::case::Case;
use kernelseek_numerics::codec;

/// Bytes of an output from which its mean is taken and in which noise is planted: more would only take longer.
const HEAD: usize = 1 << 20;

/// A way to answer without computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trivial {
    /// All zeros.
    Zeros,
    /// The mean of the right answer everywhere.
    Constant,
    /// The bytes of an input, repeated.
    CopyOfInput,
    /// The right answer in the first half, zeros after it.
    FirstHalf,
    /// The right answer to another content.
    Stale,
    /// The right answer with relative noise many times the seed's own error.
    Noisy,
}

impl Trivial {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Zeros, Self::Constant, Self::CopyOfInput, Self::FirstHalf, Self::Stale, Self::Noisy];

    /// Its name as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Constant => "constant",
            Self::CopyOfInput => "copy of an input",
            Self::FirstHalf => "first half",
            Self::Stale => "another content's answer",
            Self::Noisy => "noise",
        }
    }

    /// Why a problem that accepts this answer is too weak.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Zeros => "the outputs are zero, or the tolerance is larger than they are",
            Self::Constant => "the outputs hardly vary, or the tolerance is larger than their variation",
            Self::CopyOfInput => "the outputs equal an input, or the tolerance is larger than the difference",
            Self::FirstHalf => "half of the outputs is zero or is not compared",
            Self::Stale => "the outputs do not depend on the inputs",
            Self::Noisy => "the tolerance is far looser than the outputs' precision",
        }
    }

    /// The answer to one content whose right answer is `reference`; `inputs` are the bytes of its storages (of large ones
    /// the beginning), `other` is the right answer to another content, `noise` the relative size of noise.
    #[must_use]
    pub fn answer(
        self,
        case: &Case,
        inputs: &[Vec<u8>],
        reference: &Outputs,
        other: &Outputs,
        noise: f64,
    ) -> Outputs {
        let tensors = case
            .tensors
            .iter()
            .enumerate()
            .map(|(index, tensor)| {
                let right = &reference.tensors[index];
                let size = tensor.dtype.size();
                match self {
                    Self::Zeros => right.zeroed(0),
                    Self::Constant => {
                        let values = head_values(reference, case, index);
                        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
                        let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
                        let mut element = vec![0; size];
                        fill(tensor.dtype, &[mean], &mut element);
                        right.tiled(&element)
                    }
                    Self::CopyOfInput => right.tiled(copy_of_input(case, inputs, tensor.dtype)),
                    Self::FirstHalf => right.zeroed(right.len() / size / 2 * size),
                    Self::Stale => other.tensors[index].clone(),
                    Self::Noisy if tensor.dtype.is_float() => {
                        let step = noise.max(32.0 * tensor.dtype.epsilon()).min(0.5);
                        let noisy: Vec<f64> = head_values(reference, case, index)
                            .iter()
                            .enumerate()
                            .map(|(i, v)| v * (1.0 + if i.is_multiple_of(2) { step } else { -step }))
                            .collect();
                        let mut bytes = vec![0; noisy.len() * size];
                        fill(tensor.dtype, &noisy, &mut bytes);
                        right.with_head(&bytes)
                    }
                    Self::Noisy => right.clone(),
                }
            })
            .collect();
        Outputs { tensors, sample: reference.sample }
    }

    /// Whether the answer differs from the right one at all on this case. Where it does not (an empty tensor, an
    /// integer output without noise, the mean of one element) accepting it proves no weakness.
    #[must_use]
    pub fn applies(self, answer: &Outputs, reference: &Outputs) -> bool {
        let single = answer.tensors.iter().all(|data| data.len() <= 8);
        answer != reference
            || !(matches!(self, Self::Noisy | Self::FirstHalf) || (self == Self::Constant && single))
    }
}

/// Encodes values; what cannot be encoded stays zero.
fn fill(dtype: kernelseek_core::dtype::DType, values: &[f64], bytes: &mut [u8]) {
    let _ = codec::encode(dtype, values, bytes);
}

/// The values of an output, of a large one the first: they stand for all of it.
fn head_values(outputs: &Outputs, case: &Case, index: usize) -> Vec<f64> {
    let mut values = Vec::new();
    if let (Some(data), Some(tensor)) = (outputs.tensors.get(index), case.tensors.get(index)) {
        let most = HEAD / tensor.dtype.size() * tensor.dtype.size();
        // Whole elements; nothing else can be wrong with them.
        let _ = codec::decode(tensor.dtype, &data.head(most), &mut values);
    }
    values
}

/// Bytes of the first input of this type that is not empty.
fn copy_of_input<'a>(case: &Case, inputs: &'a [Vec<u8>], dtype: kernelseek_core::dtype::DType) -> &'a [u8] {
    case.tensors
        .iter()
        .filter(|t| t.role.is_input() && t.dtype == dtype)
        .filter_map(|t| inputs.get(t.storage?))
        .find(|storage| !storage.is_empty())
        .map_or(&[0], Vec::as_slice)
}
