//! Generators, stress families and garbage, checked against shape and dtype.

use super::Resolver;
use crate::case::{Garbage, Generator, Stress, TensorCase};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expression::Expression;
use crate::problem::{GarbageRule, GeneratorKind, GeneratorRule, Tensor};
use crate::value::Value;

/// Largest magnitude of `extremes` where the problem does not say.
const USUAL_EXTREME: f64 = 1e4;

/// Adds generator, stress, extreme and garbage to every present tensor.
pub(super) fn fill_in(resolver: &Resolver<'_>, tensors: &mut [TensorCase]) -> Result<(), Diagnostic> {
    let rules = &resolver.problem.tensors;
    for (index, rule) in rules.iter().enumerate() {
        let tensor = &tensors[index];
        if !tensor.is_present() {
            continue;
        }
        let generator =
            rule.generator.as_ref().map(|g| generator(resolver, g, index, tensors)).transpose()?;
        let stress = stress(rule, tensor.dtype, generator.as_ref());
        let extreme = extreme(resolver, rule, tensor.dtype)?;
        let tensor = &mut tensors[index];
        (tensor.generator, tensor.stress, tensor.extreme) = (generator, stress, extreme);
    }
    for (index, rule) in rules.iter().enumerate() {
        if let Some(garbage_rule) = &rule.garbage
            && tensors[index].is_present()
        {
            tensors[index].garbage = garbage(resolver, garbage_rule, index, tensors)?;
        }
    }
    Ok(())
}

fn stress(rule: &Tensor, dtype: DType, generator: Option<&Generator>) -> Vec<Stress> {
    if !dtype.is_float() {
        return Vec::new();
    }
    match (&rule.stress, generator) {
        (Some(families), _) => families.clone(),
        (None, Some(Generator::Normal { .. } | Generator::Uniform { .. })) => {
            vec![Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes]
        }
        _ => Vec::new(),
    }
}

fn extreme(resolver: &Resolver<'_>, rule: &Tensor, dtype: DType) -> Result<f64, Diagnostic> {
    let wanted = match &rule.extreme {
        None => USUAL_EXTREME,
        Some(expression) => {
            let x = resolver.float(expression, "extreme")?;
            if x <= 0.0 {
                return Err(
                    resolver.error(&expression.span(), format!("`extreme` must be positive, not {x}"))
                );
            }
            x
        }
    };
    Ok(wanted.min(dtype.max_finite()))
}

/// Smallest value of a type.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::I64 => i64::MIN as f64,
        DType::I32 => f64::from(i32::MIN),
        DType::I16 => f64::from(i16::MIN),
        DType::I8 => f64::from(i8::MIN),
        DType::U8 | DType::Bool => 0.0,
        float => -float.max_finite(),
    }
}

fn holds(dtype: DType, x: f64) -> bool {
    x >= smallest(dtype) && x <= dtype.max_finite() && (dtype.is_float() || x.fract() == 0.0)
}

struct Check<'a> {
    resolver: &'a Resolver<'a>,
    rule: &'a GeneratorRule,
    tensor: &'a TensorCase,
}

impl Check<'_> {
    fn fault(&self, message: impl AsRef<str>) -> Diagnostic {
        self.resolver.error(&self.rule.span, format!("`{}`: {}", self.tensor.name, message.as_ref()))
    }

    fn ensure(&self, holds: bool, message: impl FnOnce() -> String) -> Result<(), Diagnostic> {
        if holds { Ok(()) } else { Err(self.fault(message())) }
    }

    fn float_type(&self, kind: &str) -> Result<(), Diagnostic> {
        let dtype = self.tensor.dtype;
        self.ensure(dtype.is_float(), || format!("a {kind} generator needs a float dtype, not {dtype}"))
    }

    fn integer_type(&self, kind: &str) -> Result<(), Diagnostic> {
        let dtype = self.tensor.dtype;
        let fits = !dtype.is_float() && dtype != DType::Bool;
        self.ensure(fits, || format!("a {kind} generator needs an integer dtype, not {dtype}"))
    }

    fn fits(&self, x: f64) -> Result<(), Diagnostic> {
        let dtype = self.tensor.dtype;
        self.ensure(holds(dtype, x), || format!("{dtype} cannot hold {x}"))
    }

    fn float(&self, expression: &Expression, what: &str) -> Result<f64, Diagnostic> {
        self.resolver.float(expression, what)
    }

    fn non_negative(&self, expression: &Expression, what: &str) -> Result<f64, Diagnostic> {
        let x = self.float(expression, what)?;
        self.ensure(x >= 0.0, || format!("`{what}` is negative: {x}"))?;
        Ok(x)
    }

    fn int_range(&self, lo: &Expression, hi: &Expression) -> Result<(i64, i64), Diagnostic> {
        let (lo, hi) = (self.resolver.int(lo, "lo")?, self.resolver.int(hi, "hi")?);
        self.ensure(lo <= hi, || format!("`lo` {lo} is above `hi` {hi}"))?;
        self.fits(lo as f64)?;
        self.fits(hi as f64)?;
        Ok((lo, hi))
    }

    /// A list of lengths, none negative, with its sum.
    fn lengths(&self, expression: &Expression, what: &str) -> Result<(Vec<i64>, i64), Diagnostic> {
        let lengths = self.resolver.ints(expression, what)?;
        if let Some(n) = lengths.iter().find(|n| **n < 0) {
            return Err(self.fault(format!("`{what}` holds a negative length: {n}")));
        }
        let total = lengths.iter().try_fold(0i64, |sum, n| sum.checked_add(*n));
        let total = total.ok_or_else(|| self.fault(format!("the sum of `{what}` overflows")))?;
        Ok((lengths, total))
    }
}

fn generator(
    resolver: &Resolver<'_>,
    rule: &GeneratorRule,
    index: usize,
    tensors: &[TensorCase],
) -> Result<Generator, Diagnostic> {
    let tensor = &tensors[index];
    let check = Check { resolver, rule, tensor };
    let elements = tensor.len();
    Ok(match &rule.kind {
        GeneratorKind::Normal { mean, std, outliers } => {
            check.float_type("normal")?;
            let (mean, std) = (check.float(mean, "mean")?, check.non_negative(std, "std")?);
            check.fits(mean)?;
            let outliers = match outliers {
                None => None,
                Some(expression) => match resolver.value(expression, "outliers")? {
                    Value::Null => None,
                    _ => {
                        let factor = check.float(expression, "outliers")?;
                        check.ensure(factor >= 1.0, || {
                            format!("`outliers` multiplies one element of a thousand and is at least 1, not {factor}")
                        })?;
                        Some(factor)
                    }
                },
            };
            Generator::Normal { mean, std, outliers }
        }
        GeneratorKind::Uniform { lo, hi } => {
            check.float_type("uniform")?;
            let (lo, hi) = (check.float(lo, "lo")?, check.float(hi, "hi")?);
            check.ensure(lo <= hi, || format!("`lo` {lo} is above `hi` {hi}"))?;
            check.fits(lo)?;
            check.fits(hi)?;
            Generator::Uniform { lo, hi }
        }
        GeneratorKind::Integers { lo, hi } => {
            let (lo, hi) = check.int_range(lo, hi)?;
            Generator::Integers { lo, hi }
        }
        GeneratorKind::Lengths { lo, hi, total } => {
            check.integer_type("lengths")?;
            let (lo, hi) = check.int_range(lo, hi)?;
            check.ensure(lo >= 0, || format!("`lo` is negative: {lo}"))?;
            let total = match total {
                None => None,
                Some(expression) => match resolver.value(expression, "total")? {
                    Value::Null => None,
                    _ => Some(resolver.int(expression, "total")?),
                },
            };
            if let Some(total) = total {
                let n = elements as i128;
                let reachable =
                    i128::from(lo) * n <= i128::from(total) && i128::from(total) <= i128::from(hi) * n;
                check.ensure(reachable, || {
                    format!("{n} lengths from {lo} to {hi} cannot add up to {total}")
                })?;
            }
            Generator::Lengths { lo, hi, total }
        }
        GeneratorKind::Values { values } => {
            Generator::Values { values: values_of(&check, values, elements)? }
        }
        GeneratorKind::RowOffsets { lengths } => {
            check.integer_type("row_offsets")?;
            let (lengths, total) = check.lengths(lengths, "lengths")?;
            check.ensure(lengths.len() + 1 == elements, || {
                format!(
                    "{} lengths make {} offsets, but the shape has {elements}",
                    lengths.len(),
                    lengths.len() + 1
                )
            })?;
            check.fits(total as f64)?;
            Generator::RowOffsets { lengths }
        }
        GeneratorKind::PageTable { pool, used } => {
            check.integer_type("page_table")?;
            let pool = resolver.int(pool, "pool")?;
            let (used, total) = check.lengths(used, "used")?;
            let [rows, columns] = tensor.shape.as_slice() else {
                return Err(check.fault(format!("a page table has rank 2, not {}", tensor.shape.len())));
            };
            check.ensure(pool >= 1, || format!("a pool of {pool} pages"))?;
            check.fits((pool - 1) as f64)?;
            check.ensure(used.len() as i64 == *rows, || {
                format!("{} rows in `used`, {rows} in the shape", used.len())
            })?;
            if let Some(n) = used.iter().find(|n| *n > columns) {
                return Err(check.fault(format!("a row uses {n} pages of {columns}")));
            }
            check.ensure(total <= pool, || format!("the rows use {total} pages of a pool of {pool}"))?;
            Generator::PageTable { pool, used }
        }
        GeneratorKind::Permutation => {
            check.integer_type("permutation")?;
            check.fits(elements.saturating_sub(1) as f64)?;
            Generator::Permutation
        }
        GeneratorKind::Quantised { scales, scale_axes, std, fraction } => {
            check.float_type("quantised")?;
            let (std, fraction) = (check.non_negative(std, "std")?, check.float(fraction, "fraction")?);
            check.ensure(fraction > 0.0 && fraction <= 1.0, || {
                format!("`fraction` {fraction} is not in (0, 1]")
            })?;
            check_scales(&check, scales, scale_axes, tensors)?;
            Generator::Quantised { scales: scales.clone(), scale_axes: scale_axes.clone(), std, fraction }
        }
        GeneratorKind::FromQuantised => {
            check.float_type("from_quantised")?;
            let filled = resolver.problem.tensors.iter().zip(tensors).any(|(rule, t)| {
                t.is_present()
                    && rule.generator.as_ref().is_some_and(
                        |g| matches!(&g.kind, GeneratorKind::Quantised { scales, .. } if *scales == tensor.name),
                    )
            });
            check.ensure(filled, || "the quantised tensor that fills it is absent".to_owned())?;
            Generator::FromQuantised
        }
        GeneratorKind::Constant { value } => {
            let value = check.float(value, "value")?;
            check.fits(value)?;
            Generator::Constant { value }
        }
    })
}

fn values_of(check: &Check<'_>, expression: &Expression, elements: usize) -> Result<Vec<f64>, Diagnostic> {
    let value = check.resolver.value(expression, "values")?;
    let Value::List(items) = &value else {
        return Err(check.resolver.wrong(expression, "values", "a list of numbers", &value));
    };
    let numbers: Option<Vec<f64>> =
        items.iter().map(|v| v.as_float().or_else(|| v.as_int().map(|i| i as f64))).collect();
    let numbers =
        numbers.ok_or_else(|| check.resolver.wrong(expression, "values", "a list of numbers", &value))?;
    check.ensure(numbers.len() == elements, || {
        format!("{} values for {elements} elements of shape {:?}", numbers.len(), check.tensor.shape)
    })?;
    numbers.iter().try_for_each(|x| check.fits(*x))?;
    Ok(numbers)
}

fn check_scales(
    check: &Check<'_>,
    scales: &str,
    axes: &[usize],
    tensors: &[TensorCase],
) -> Result<(), Diagnostic> {
    let Some(target) = tensors.iter().find(|t| t.name == scales && t.is_present()) else {
        return Err(check.fault(format!("its scale tensor `{scales}` is absent")));
    };
    let expected: Vec<i64> = axes.iter().filter_map(|a| check.tensor.shape.get(*a).copied()).collect();
    check.ensure(target.shape == expected, || {
        format!(
            "the scale axes {axes:?} have extents {expected:?}, but `{scales}` has shape {:?}",
            target.shape
        )
    })
}

fn garbage(
    resolver: &Resolver<'_>,
    rule: &GarbageRule,
    index: usize,
    tensors: &[TensorCase],
) -> Result<Option<Garbage>, Diagnostic> {
    let tensor = &tensors[index];
    let fault =
        |message: String| resolver.error(&rule.span, format!("`{}`: garbage: {message}", tensor.name));
    let (Some(start), Some(end)) =
        (resolver.optional_ints(&rule.start, "start")?, resolver.optional_ints(&rule.end, "end")?)
    else {
        return Ok(None);
    };
    let value = resolver.float(&rule.value, "value")?;
    if !holds(tensor.dtype, value) {
        return Err(fault(format!("{} cannot hold {value}", tensor.dtype)));
    }
    let [rows, length, ..] = tensor.shape.as_slice() else {
        return Err(fault(format!("it needs two axes, not {}", tensor.shape.len())));
    };
    let table =
        rule.table.as_ref().and_then(|name| tensors.iter().find(|t| t.name == *name && t.is_present()));
    let (rows, length) = match table.map(|t| t.shape.as_slice()) {
        None => (*rows, *length),
        Some([rows, columns, ..]) => (*rows, columns.saturating_mul(*length)),
        Some(_) => return Err(fault("the page table needs two axes".to_owned())),
    };
    for (what, list) in [("start", &start), ("end", &end)] {
        if list.len() as i64 != rows {
            return Err(fault(format!("`{what}` has {} entries for {rows} rows", list.len())));
        }
    }
    for (row, (s, e)) in start.iter().zip(&end).enumerate() {
        if !(0 <= *s && s <= e && *e <= length) {
            return Err(fault(format!("row {row} uses [{s}, {e}) of [0, {length})")));
        }
    }
    if let Some(table) = table {
        let page = tensor.shape[1].max(1);
        let Some(Generator::PageTable { pool, used }) = &table.generator else {
            return Err(fault(format!("`{}` is no page table", table.name)));
        };
        if *pool != tensor.shape[0] {
            return Err(fault(format!(
                "`{}` indexes {pool} pages, the tensor has {}",
                table.name, tensor.shape[0]
            )));
        }
        let short = end.iter().zip(used).position(|(e, used)| ceil_div(*e, page) > *used);
        if let Some(row) = short {
            return Err(fault(format!("row {row} uses positions beyond its {} pages", used[row])));
        }
    }
    Ok(Some(Garbage { value, start, end, table: table.map(|t| t.name.clone()) }))
}

/// Division of non-negative numbers, rounding up.
fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b > 0)
}
