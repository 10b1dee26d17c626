//! Shapes, strides and storages.

use super::views::{self, View};
use super::{MOST_BYTES, Resolver, content};
use crate::case::{MAX_RANK, Storage, TensorCase};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expression::Expression;
use crate::problem::{Axes, AxesForm, Tensor};
use crate::value::Value;
use std::ops::Range;

/// A buffer while views are added to it.
struct Draft {
    storage: Storage,
    shared: bool,
    views: Vec<usize>,
}

/// The tensors in order and the storages they are views of.
pub(super) fn all(resolver: &Resolver<'_>) -> Result<(Vec<TensorCase>, Vec<Storage>), Diagnostic> {
    let mut tensors = Vec::with_capacity(resolver.problem.tensors.len());
    let mut drafts: Vec<Draft> = Vec::new();
    for (index, rule) in resolver.problem.tensors.iter().enumerate() {
        let mut tensor = placed(resolver, rule)?;
        if tensor.is_present() {
            tensor.storage = Some(join(resolver, rule, index, &tensor, &tensors, &mut drafts)?);
        }
        tensors.push(tensor);
    }
    let mut total = 0u64;
    for draft in &drafts {
        let bytes = u64::try_from(draft.storage.bytes()).unwrap_or(u64::MAX);
        total = total.saturating_add(bytes);
        if total > MOST_BYTES
            && let Some(rule) = draft.views.first().and_then(|i| resolver.problem.tensors.get(*i))
        {
            let message = format!("the tensors up to `{}` take more than 1 TiB", rule.name);
            return Err(resolver.error(&rule.shape.span, message));
        }
    }
    content::fill_in(resolver, &mut tensors)?;
    Ok((tensors, drafts.into_iter().map(|d| d.storage).collect()))
}

/// A tensor with shape, strides and offset; `storage` only says whether it is present.
fn placed(resolver: &Resolver<'_>, rule: &Tensor) -> Result<TensorCase, Diagnostic> {
    let present = rule.when.as_ref().map_or(Ok(true), |e| resolver.bool(e, "when"))?;
    let mut tensor = TensorCase {
        name: rule.name.clone(),
        role: rule.role,
        dtype: DType::F32,
        shape: Vec::new(),
        stride: Vec::new(),
        offset: 0,
        storage: None,
        generator: None,
        stress: Vec::new(),
        extreme: 0.0,
        garbage: None,
    };
    if !present {
        // The type of an absent tensor is a courtesy: its expression may need what is absent with it.
        tensor.dtype = resolver.dtype(&rule.dtype).unwrap_or(DType::F32);
        return Ok(tensor);
    }
    tensor.dtype = resolver.dtype(&rule.dtype)?;
    let Some(shape) = extents(resolver, &rule.shape, &rule.name, "shape")? else {
        return Err(resolver.error(&rule.shape.span, format!("`{}`: its shape is null", rule.name)));
    };
    tensor.shape = shape;
    check_size(resolver, rule, &tensor)?;
    tensor.stride = match &rule.stride {
        Some(stride) => {
            extents(resolver, stride, &rule.name, "stride")?.unwrap_or_else(|| row_major(&tensor.shape))
        }
        None => row_major(&tensor.shape),
    };
    if let Some(stride) = &rule.stride
        && tensor.stride.len() != tensor.shape.len()
    {
        let message =
            format!("`{}`: {} strides for {} extents", rule.name, tensor.stride.len(), tensor.shape.len());
        return Err(resolver.error(&stride.span, message));
    }
    if let Some(offset) = &rule.offset {
        tensor.offset = resolver.int(offset, "offset")?;
        if tensor.offset < 0 {
            return Err(resolver.error(&offset.span(), format!("`{}`: negative offset", rule.name)));
        }
    }
    if let Some(stride) = &rule.stride
        && let Some(axis) = views::self_overlap(&tensor.shape, &tensor.stride)
    {
        let span = stride.expressions().nth(axis).map_or_else(|| stride.span.clone(), Expression::span);
        let message = format!(
            "`{}`: elements overlap: stride {} of axis {axis} with shape {:?} and strides {:?}",
            rule.name, tensor.stride[axis], tensor.shape, tensor.stride
        );
        return Err(resolver.error(&span, message));
    }
    tensor.storage = Some(usize::MAX);
    Ok(tensor)
}

/// One non-negative number for each axis, or `None` if the whole list is null.
fn extents(
    resolver: &Resolver<'_>,
    rules: &Axes,
    name: &str,
    what: &str,
) -> Result<Option<Vec<i64>>, Diagnostic> {
    let negative = |axis: usize, n: i64, span: &Range<usize>| {
        resolver.error(span, format!("`{name}.{what}[{axis}]` is negative: {n}"))
    };
    match &rules.form {
        AxesForm::Each(each) => {
            let number = |(axis, rule): (usize, &Expression)| {
                let n = resolver.int(rule, &format!("{name}.{what}[{axis}]"))?;
                if n < 0 { Err(negative(axis, n, &rule.span())) } else { Ok(n) }
            };
            each.iter().enumerate().map(number).collect::<Result<_, _>>().map(Some)
        }
        AxesForm::Whole(rule) => {
            let Some(all) = resolver.optional_ints(rule, &format!("{name}.{what}"))? else {
                return Ok(None);
            };
            if all.len() > MAX_RANK {
                let message = format!("`{name}`: rank {}; at most {MAX_RANK}", all.len());
                return Err(resolver.error(&rules.span, message));
            }
            match all.iter().enumerate().find(|(_, n)| **n < 0) {
                Some((axis, n)) => Err(negative(axis, *n, &rules.span)),
                None => Ok(Some(all)),
            }
        }
    }
}

fn check_size(resolver: &Resolver<'_>, rule: &Tensor, tensor: &TensorCase) -> Result<(), Diagnostic> {
    let bytes = tensor
        .shape
        .iter()
        .try_fold(tensor.dtype.size() as u64, |product, &d| product.checked_mul(d.unsigned_abs()));
    // A zero extent must not hide an overflow of the strides.
    let extent_product = tensor
        .shape
        .iter()
        .try_fold(tensor.dtype.size() as u64, |product, &d| product.checked_mul(d.unsigned_abs().max(1)));
    match (bytes, extent_product) {
        (Some(bytes), Some(product)) if bytes <= MOST_BYTES && product <= MOST_BYTES => Ok(()),
        _ => {
            let message =
                format!("`{}`: a tensor of shape {:?} takes more than 1 TiB", rule.name, tensor.shape);
            Err(resolver.error(&rule.shape.span, message))
        }
    }
}

/// Row-major strides. The caller has checked that the product of the extents fits.
fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut stride = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        stride[axis - 1] = stride[axis].saturating_mul(shape[axis]);
    }
    stride
}

/// Adds `tensor` to its own or a shared storage and returns the storage's index.
fn join(
    resolver: &Resolver<'_>,
    rule: &Tensor,
    index: usize,
    tensor: &TensorCase,
    earlier: &[TensorCase],
    drafts: &mut Vec<Draft>,
) -> Result<usize, Diagnostic> {
    let (name, shared, span) = match &rule.storage {
        None => (rule.name.clone(), false, rule.span.clone()),
        Some(expression) => match resolver.value(expression, "storage")? {
            Value::Null => (rule.name.clone(), false, expression.span()),
            Value::String(s) if s.is_empty() => (rule.name.clone(), false, expression.span()),
            Value::String(s) => (s, true, expression.span()),
            other => return Err(resolver.wrong(expression, "storage", "a string", &other)),
        },
    };
    let misalign = misalign(resolver, rule, tensor.dtype)?;
    let Some(end) = views::end(tensor) else {
        let message = format!("`{}`: strides {:?} leave 1 TiB", rule.name, tensor.stride);
        return Err(resolver.error(&rule.shape.span, message));
    };
    if (end as u64).saturating_mul(tensor.dtype.size() as u64) > MOST_BYTES {
        let message = format!("`{}`: its storage takes more than 1 TiB", rule.name);
        return Err(resolver.error(&rule.shape.span, message));
    }
    let existing = drafts.iter().position(|d| shared && d.shared && d.storage.name == name);
    let Some(at) = existing else {
        let storage = Storage { name, dtype: tensor.dtype, elements: end, misalign };
        drafts.push(Draft { storage, shared, views: vec![index] });
        return Ok(drafts.len() - 1);
    };
    let draft = &mut drafts[at];
    if draft.storage.dtype != tensor.dtype || draft.storage.misalign != misalign {
        let message = format!(
            "`{}` shares the storage `{name}` with another dtype or misalignment ({}, {})",
            rule.name, draft.storage.dtype, draft.storage.misalign
        );
        return Err(resolver.error(&span, message));
    }
    for &other in &draft.views {
        let other = &earlier[other];
        if views::may_overlap(&View::of(tensor), &View::of(other)) {
            let message = format!("`{}` and `{}` overlap in the storage `{name}`", other.name, rule.name);
            return Err(resolver.error(&span, message).with_hint("check `offset` and `stride`"));
        }
    }
    draft.storage.elements = draft.storage.elements.max(end);
    draft.views.push(index);
    Ok(at)
}

fn misalign(resolver: &Resolver<'_>, rule: &Tensor, dtype: DType) -> Result<usize, Diagnostic> {
    let Some(expression) = &rule.misalign else { return Ok(0) };
    let bytes = resolver.int(expression, "misalign")?;
    let span: Range<usize> = expression.span();
    match usize::try_from(bytes) {
        Ok(n) if n < 256 && n.is_multiple_of(dtype.size()) => Ok(n),
        _ => {
            let message =
                format!("`misalign` is {bytes}: from 0 to 255, a multiple of the element's {}", dtype.size());
            Err(resolver.error(&span, message))
        }
    }
}
