//! Cases to fill.

use kernelseek_core::case::{Case, Generator, Role, Storage, Stress, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::content::{Content, ContentError, Distribution, SlotBuffers, fill};

pub(crate) fn dense(shape: &[i64]) -> Vec<i64> {
    let mut stride = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        stride[axis - 1] = stride[axis] * shape[axis].max(1);
    }
    stride
}

pub(crate) fn tensor(name: &str, dtype: DType, shape: &[i64], generator: Generator) -> TensorCase {
    TensorCase {
        name: name.into(),
        role: Role::Varying,
        dtype,
        shape: shape.to_vec(),
        stride: dense(shape),
        offset: 0,
        storage: Some(0),
        generator: Some(generator),
        stress: vec![],
        extreme: 0.0,
        garbage: None,
    }
}

pub(crate) fn output(name: &str, dtype: DType, shape: &[i64]) -> TensorCase {
    let mut t = tensor(name, dtype, shape, Generator::Constant { value: 0.0 });
    t.role = Role::Output;
    t.generator = None;
    t
}

/// One storage per tensor, as large as its view needs.
pub(crate) fn case(mut tensors: Vec<TensorCase>) -> Case {
    let mut storages = Vec::new();
    for t in tensors.iter_mut().filter(|t| t.storage.is_some()) {
        let reach: i64 = t.shape.iter().zip(&t.stride).map(|(&d, &s)| (d - 1).max(0) * s.max(0)).sum();
        t.storage = Some(storages.len());
        let elements = if t.is_empty() { 0 } else { (t.offset + reach + 1) as usize };
        storages.push(Storage { name: t.name.clone(), dtype: t.dtype, elements, misalign: 0 });
    }
    Case {
        id: "s1".into(),
        tags: vec![],
        tolerance: vec![None; tensors.len()],
        tensors,
        storages,
        attributes: vec![],
        flops: None,
        bytes: None,
    }
}

pub(crate) fn nominal(seed: u64) -> Content {
    Content { distribution: Distribution::Nominal, seed }
}

pub(crate) fn stressed(family: Stress, seed: u64) -> Content {
    Content { distribution: Distribution::Stress(family), seed }
}

pub(crate) fn buffers(case: &Case) -> Vec<Vec<u8>> {
    case.storages.iter().map(|s| vec![0xEE; s.bytes()]).collect()
}

pub(crate) fn slot(buffers: &mut [Vec<u8>]) -> SlotBuffers<'_> {
    SlotBuffers::new(buffers.iter_mut().map(Vec::as_mut_slice).collect())
}

pub(crate) fn filled(case: &Case, content: Content) -> Result<Vec<Vec<u8>>, ContentError> {
    let mut b = buffers(case);
    fill(case, content, &mut slot(&mut b))?;
    Ok(b)
}

/// A tensor's values in logical order.
pub(crate) fn values(case: &Case, buffers: &[Vec<u8>], name: &str) -> Vec<f64> {
    let t = case.tensor(name).unwrap();
    let (mut packed, mut out) = (vec![], vec![]);
    kernelseek_numerics::view::pack(t, &buffers[t.storage.unwrap()], &mut packed).unwrap();
    kernelseek_numerics::codec::decode(t.dtype, &packed, &mut out).unwrap();
    out
}

pub(crate) fn normal() -> Generator {
    Generator::Normal { mean: 0.0, std: 1.0, outliers: None }
}
