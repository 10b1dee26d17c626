//! Quantised tensors and their scales.

use super::floats::Floats;
use super::{CHUNK, ContentError, SlotBuffers, Writer};
use crate::codec::round_to;
use crate::view::View;
use kernelseek_core::case::{Case, Generator, TensorCase};

pub(super) struct Job<'a> {
    pub(super) tensor: &'a TensorCase,
    pub(super) view: &'a View,
    pub(super) storage: usize,
    pub(super) scales: &'a str,
    pub(super) scale_axes: &'a [usize],
    pub(super) fraction: f64,
}

/// Draws twice from the same stream: once for the largest magnitude of each group, once to store `x / scale`.
/// Where the scale tensor is absent, the scale is 1.
pub(super) fn fill(
    case: &Case,
    slot: &mut SlotBuffers<'_>,
    job: &Job<'_>,
    source: &Floats,
) -> Result<(), ContentError> {
    let Job { tensor, view, .. } = *job;
    check_fraction(tensor, job.fraction)?;
    let Some(scale_tensor) = case.tensor(job.scales) else {
        return Err(ContentError::misuse(tensor, format!("there is no scale tensor `{}`", job.scales)));
    };
    let groups = Groups::new(tensor, job.scale_axes)?;
    let mut scales = vec![1.0; groups.count];
    if let Some(storage) = scale_tensor.storage {
        check_scale_tensor(tensor, scale_tensor, job.scale_axes)?;
        let mut largest = vec![0.0f64; groups.count];
        each_chunk(view.len(), source, |position, chunk| {
            groups.split(position, chunk, |group, part| {
                largest[group] = part.iter().fold(largest[group], |m, x| m.max(x.abs()));
            });
        });
        let target = job.fraction * tensor.dtype.max_finite();
        for (scale, amax) in scales.iter_mut().zip(largest) {
            let stored = round_to(scale_tensor.dtype, amax / target);
            *scale = if stored > 0.0 { stored } else { 1.0 };
        }
        let view = super::view_of(case, scale_tensor, storage)?;
        if let Some(bytes) = slot.storages.get_mut(storage) {
            Writer { dtype: scale_tensor.dtype, cursor: view.cursor(0), bytes }.floats(&scales);
        }
    }
    if let Some(bytes) = slot.storages.get_mut(job.storage) {
        let mut out = Writer { dtype: tensor.dtype, cursor: view.cursor(0), bytes };
        each_chunk(view.len(), source, |position, chunk| {
            groups.split(position, chunk, |group, part| {
                let scale = scales[group];
                part.iter_mut().for_each(|x| *x /= scale);
            });
            out.floats(chunk);
        });
    }
    Ok(())
}

pub(super) fn check_fraction(tensor: &TensorCase, fraction: f64) -> Result<(), ContentError> {
    if fraction > 0.0 && fraction <= 1.0 {
        return Ok(());
    }
    Err(ContentError::misuse(tensor, "the fraction of its range lies in (0, 1]"))
}

pub(super) fn check_scale_tensor(
    tensor: &TensorCase,
    scales: &TensorCase,
    axes: &[usize],
) -> Result<(), ContentError> {
    if !matches!(scales.generator, Some(Generator::FromQuantised)) || !scales.dtype.is_float() {
        return Err(ContentError::misuse(
            scales,
            "scales are floats that are filled from the quantised tensor",
        ));
    }
    let expected: Vec<i64> = axes.iter().filter_map(|&a| tensor.shape.get(a).copied()).collect();
    if scales.shape != expected {
        let reason = format!("its shape is {:?} and that of the groups {expected:?}", scales.shape);
        return Err(ContentError::misuse(scales, reason));
    }
    Ok(())
}

fn each_chunk(len: usize, source: &Floats, mut each: impl FnMut(usize, &mut [f64])) {
    let mut source = source.clone();
    let mut chunk = [0.0; CHUNK];
    let mut position = 0;
    while position < len {
        let part = &mut chunk[..(len - position).min(CHUNK)];
        source.fill(part);
        each(position, part);
        position += part.len();
    }
}

/// Which group each logical element belongs to.
struct Groups {
    /// Extent and group stride (0 when the axis does not index the scales) of the axes up to the last scale axis.
    axes: Vec<(usize, usize)>,
    /// Elements behind those axes: they share a group.
    block: usize,
    count: usize,
}

impl Groups {
    fn new(tensor: &TensorCase, scale_axes: &[usize]) -> Result<Self, ContentError> {
        let extent = |axis: usize| tensor.shape.get(axis).map(|&d| d.max(0) as usize);
        let mut stride = vec![0usize; tensor.shape.len()];
        let mut count = 1;
        for &axis in scale_axes.iter().rev() {
            let Some(d) = extent(axis).filter(|_| stride[axis] == 0) else {
                return Err(ContentError::misuse(tensor, "its scale axes are not distinct axes of it"));
            };
            stride[axis] = count;
            count *= d;
        }
        let depth = scale_axes.iter().map(|a| a + 1).max().unwrap_or(0);
        let axes = (0..depth).filter_map(|a| Some((extent(a)?, stride[a]))).collect();
        let block = (depth..tensor.shape.len()).filter_map(extent).product();
        Ok(Self { axes, block, count })
    }

    fn split(&self, position: usize, chunk: &mut [f64], mut each: impl FnMut(usize, &mut [f64])) {
        let mut done = 0;
        while done < chunk.len() {
            let at = position + done;
            let mut rest = at / self.block.max(1);
            let mut group = 0;
            for &(extent, stride) in self.axes.iter().rev() {
                group += rest % extent.max(1) * stride;
                rest /= extent.max(1);
            }
            let count = (self.block.max(1) - at % self.block.max(1)).min(chunk.len() - done);
            each(group, &mut chunk[done..done + count]);
            done += count;
        }
    }
}
