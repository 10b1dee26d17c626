//! Cases to fill.

use kernelseek_core::case::{Case, Garbage, Generator, Role, Storage, Stress, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::content::{Content, Distribution, SlotBuffers};

pub(crate) const FLOATS: [DType; 6] =
    [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];
pub(crate) const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution::Nominal,
    Distribution::Stress(Stress::Scaled),
    Distribution::Stress(Stress::Outliers),
    Distribution::Stress(Stress::Structured),
    Distribution::Stress(Stress::Extremes),
];

pub(crate) fn dense(shape: &[i64]) -> Vec<i64> {
    let mut stride = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        stride[axis - 1] = stride[axis] * shape[axis].max(1);
    }
    stride
}

pub(crate) fn tensor(dtype: DType, shape: &[i64], generator: Generator) -> TensorCase {
    TensorCase {
        name: "t".into(),
        role: Role::Varying,
        dtype,
        shape: shape.to_vec(),
        stride: dense(shape),
        offset: 0,
        storage: Some(0),
        generator: Some(generator),
        stress: vec![Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes],
        extreme: 100.0,
        garbage: None,
    }
}

/// Negative strides reach downwards from a large enough offset; every fourth layout leaves gaps, every fifth repeats.
pub(crate) fn strided(mut t: TensorCase, layout: u64) -> TensorCase {
    let rank = t.shape.len();
    if layout.is_multiple_of(3) {
        t.offset = (layout % 11) as i64;
        return t;
    }
    // Axes in another order, with gaps.
    let mut order: Vec<usize> = (0..rank).collect();
    order.rotate_left((layout % 7) as usize % rank.max(1));
    let mut stride = 1 + (layout % 2) as i64;
    for &axis in order.iter().rev() {
        t.stride[axis] = stride;
        stride *= t.shape[axis].max(1);
        if layout % 4 == 1 {
            stride = (stride + 3) / 16 * 16 + 16;
        }
    }
    if layout % 5 == 1 && rank > 0 {
        t.stride[layout as usize % rank] = 0;
    }
    for axis in 0..rank {
        if layout % 4 == 2 && axis % 2 == 0 {
            t.stride[axis] = -t.stride[axis];
            t.offset -= t.stride[axis] * (t.shape[axis] - 1).max(0);
        }
    }
    t.offset += (layout % 13) as i64;
    t
}

/// One storage per tensor, as large as its view needs.
pub(crate) fn case(mut tensors: Vec<TensorCase>) -> Case {
    let mut storages = Vec::new();
    for (index, t) in tensors.iter_mut().enumerate().filter(|(_, t)| t.storage.is_some()) {
        let reach: i64 = t.shape.iter().zip(&t.stride).map(|(&d, &s)| (d - 1).max(0) * s.max(0)).sum();
        t.storage = Some(storages.len());
        let elements = if t.is_empty() { 0 } else { (t.offset + reach + 1) as usize };
        storages.push(Storage { name: format!("{}{index}", t.name), dtype: t.dtype, elements, misalign: 0 });
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

pub(crate) fn content(distribution: Distribution, seed: u64) -> Content {
    Content { distribution, seed }
}

pub(crate) fn buffers(case: &Case) -> Vec<Vec<u8>> {
    case.storages.iter().map(|s| vec![0xEE; s.bytes()]).collect()
}

pub(crate) fn slot(buffers: &mut [Vec<u8>]) -> SlotBuffers<'_> {
    SlotBuffers::new(buffers.iter_mut().map(Vec::as_mut_slice).collect())
}

pub(crate) fn normal() -> Generator {
    Generator::Normal { mean: 0.25, std: 1.5, outliers: None }
}

pub(crate) fn with_outliers() -> Generator {
    Generator::Normal { mean: 1.0, std: 1.0, outliers: Some(20.0) }
}

pub(crate) fn uniform() -> Generator {
    Generator::Uniform { lo: -1.0, hi: 3.0 }
}

/// A quantised tensor and its scales.
pub(crate) fn quantised(
    dtype: DType,
    shape: &[i64],
    axes: Vec<usize>,
    scale_dtype: DType,
) -> Vec<TensorCase> {
    let scale_shape: Vec<i64> = axes.iter().map(|&a| shape[a]).collect();
    let generator = Generator::Quantised { scales: "s".into(), scale_axes: axes, std: 2.0, fraction: 0.9 };
    let mut scales = tensor(scale_dtype, &scale_shape, Generator::FromQuantised);
    scales.name = "s".into();
    vec![tensor(dtype, shape, generator), scales]
}

/// Keys in pages, whose unused ends hold garbage.
pub(crate) fn paged(dtype: DType) -> Case {
    let (pool, page, rows, columns) = (12, 4, 3, 4);
    let mut k = tensor(dtype, &[pool, page, 2, 8], normal());
    k.garbage = Some(Garbage {
        value: 300.0,
        start: vec![0, 2, 1],
        end: vec![9, 16, 1],
        table: Some("pages".into()),
    });
    let generator = Generator::PageTable { pool, used: vec![3, 4, 1] };
    let mut pages = tensor(DType::I32, &[rows, columns], generator);
    pages.name = "pages".into();
    case(vec![k, pages])
}
