//! `[[tensor]]`: shapes, generators and garbage.

use super::document::{Item, Table};
use super::sections::member_name;
use super::{Axes, AxesForm, GarbageRule, GeneratorKind, GeneratorRule, Tensor};
use crate::case::{MAX_RANK, Role, Stress};
use crate::diagnostic::{Collector, suggestion};
use crate::dtype::DType;
use crate::expression::Expression;
use crate::value::Value;

const KEYS: [&str; 13] = [
    "name",
    "role",
    "dtype",
    "shape",
    "when",
    "stride",
    "offset",
    "storage",
    "misalign",
    "generator",
    "stress",
    "extreme",
    "garbage",
];

const SUB_BYTE: [&str; 9] = ["fp4", "f4", "int4", "i4", "u4", "uint4", "nf4", "fp6", "f4e2m1"];

/// The tensors in file order, and the names of all of them, the broken ones too.
pub(super) fn tensors(root: &Table<'_>, errors: &mut Collector) -> (Vec<Tensor>, Vec<String>) {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    let Some(item) = root.get("tensor") else {
        errors.error(&(0..0), "the problem file has no [[tensor]]");
        return (found, names);
    };
    let before = errors.count();
    for item in item.list(errors).unwrap_or_default() {
        if let Some(table) = item.table("[[tensor]]", errors) {
            found.extend(tensor(&table, &mut names, errors));
        }
    }
    if errors.count() == before && !found.iter().any(|t| t.role.is_output()) {
        errors.error_hint(
            &item.span,
            "no tensor is an output",
            "a tensor with role `output` or `inout` is what a call is judged by",
        );
    }
    (found, names)
}

fn tensor(table: &Table<'_>, names: &mut Vec<String>, errors: &mut Collector) -> Option<Tensor> {
    let name = member_name(table, names, errors);
    let mut table = table.clone();
    if let Some(name) = &name {
        table.what = format!("the tensor `{name}`");
    }
    let table = &table;
    table.check_keys(&KEYS, errors);
    let role = table.require("role", errors).and_then(|item| role(item, errors));
    let dtype = table.require("dtype", errors).and_then(|item| dtype(item, errors));
    let shape = table.require("shape", errors).and_then(|item| extents(item, errors));
    let stride = match table.get("stride") {
        None => Some(None),
        Some(item) => extents(item, errors).map(|stride| {
            let ranks = (shape.as_ref().and_then(Axes::rank), stride.rank());
            if let (Some(extents), Some(strides)) = ranks
                && extents != strides
            {
                errors.error(&item.span, format!("{strides} strides for {extents} extents"));
            }
            Some(stride)
        }),
    };
    let [when, offset, storage, misalign, extreme] = ["when", "offset", "storage", "misalign", "extreme"]
        .map(|key| table.optional_expression(key, errors));
    let generator = match (role, table.get("generator")) {
        (Some(Role::Output), Some(item)) => {
            errors.error_hint(&item.key_span, "an output has no generator", "outputs are filled with poison");
            None
        }
        (Some(Role::Output) | None, None) => Some(None),
        (Some(_), None) => {
            errors.error(&table.span, format!("{} is an input without a `generator`", table.what));
            None
        }
        (_, Some(item)) => generator(item, errors).map(Some),
    };
    let stress = match table.get("stress") {
        None => Some(None),
        Some(item) => stress(item, role, errors).map(Some),
    };
    if let (Some(Some(rule)), Some(Some(families)), Some(item)) = (&generator, &stress, table.get("stress"))
        && !families.is_empty()
        && !rule.kind.is_random_float()
    {
        errors
            .error(&item.key_span, "only `normal`, `uniform` and `quantised` contents have stress families");
    }
    let garbage = match (role, table.get("garbage")) {
        (Some(Role::Output), Some(item)) => {
            errors.error(&item.key_span, "an output has no garbage");
            None
        }
        (_, Some(item)) => garbage(item, errors).map(Some),
        (_, None) => Some(None),
    };
    Some(Tensor {
        name: name?,
        span: table.get("name").map_or_else(|| table.span.clone(), |i| i.span.clone()),
        role: role?,
        dtype: dtype?,
        shape: shape?,
        when: when?,
        stride: stride?,
        offset: offset?,
        storage: storage?,
        misalign: misalign?,
        generator: generator?,
        stress: stress?,
        extreme: extreme?,
        garbage: garbage?,
    })
}

fn role(item: &Item<'_>, errors: &mut Collector) -> Option<Role> {
    Some(match item.string(errors)? {
        "varying" => Role::Varying,
        "constant" => Role::Constant,
        "inout" => Role::Inout,
        "output" => Role::Output,
        other => {
            let hint = suggestion(other, ["varying", "constant", "inout", "output"]);
            errors.error_hint(
                &item.span,
                format!("unknown role `{other}`"),
                hint.unwrap_or_else(|| "varying, constant, inout or output".into()),
            );
            return None;
        }
    })
}

/// A dtype name, or an expression that yields one.
fn dtype(item: &Item<'_>, errors: &mut Collector) -> Option<Expression> {
    let text = item.string(errors)?;
    if DType::from_name(text).is_some() {
        return Some(Expression::constant(Value::String(text.to_owned()), item.inner(errors)));
    }
    let lower = text.to_lowercase();
    if SUB_BYTE.contains(&lower.as_str()) {
        errors.error_hint(
            &item.span,
            format!("`{text}`: sub-byte dtypes are not supported"),
            "pack two elements into one `u8`",
        );
        return None;
    }
    let aliases = [
        ("float32", "f32"),
        ("fp32", "f32"),
        ("float", "f32"),
        ("float64", "f64"),
        ("fp64", "f64"),
        ("double", "f64"),
        ("fp16", "f16"),
        ("float16", "f16"),
        ("half", "f16"),
        ("bfloat16", "bf16"),
        ("fp8", "f8e4m3"),
        ("e4m3", "f8e4m3"),
        ("e5m2", "f8e5m2"),
        ("int64", "i64"),
        ("int32", "i32"),
        ("int", "i32"),
        ("int16", "i16"),
        ("int8", "i8"),
        ("uint8", "u8"),
        ("byte", "u8"),
        ("boolean", "bool"),
    ];
    if let Some((_, name)) = aliases.iter().find(|(alias, _)| *alias == lower) {
        errors.error_hint(
            &item.span,
            format!("unknown dtype `{text}`"),
            format!("it is called `{name}` here"),
        );
        return None;
    }
    item.expression(errors)
}

/// A list of expressions, or one that yields a list.
fn extents(item: &Item<'_>, errors: &mut Collector) -> Option<Axes> {
    if item.is_string() {
        let form = AxesForm::Whole(item.expression(errors)?);
        return Some(Axes { span: item.span.clone(), form });
    }
    let items = item.list(errors)?;
    if items.len() > MAX_RANK {
        errors.error(&item.span, format!("rank {}; at most {MAX_RANK}", items.len()));
        return None;
    }
    let found: Vec<_> = items.iter().map(|i| i.expression(errors)).collect();
    let found = found.into_iter().collect::<Option<_>>()?;
    Some(Axes { span: item.span.clone(), form: AxesForm::Each(found) })
}

fn stress(item: &Item<'_>, role: Option<Role>, errors: &mut Collector) -> Option<Vec<Stress>> {
    if role == Some(Role::Output) {
        errors.error(&item.key_span, "an output has no stress contents");
        return None;
    }
    let mut found = Vec::new();
    for item in item.list(errors)? {
        let family = match item.string(errors)? {
            "scaled" => Stress::Scaled,
            "outliers" => Stress::Outliers,
            "structured" => Stress::Structured,
            "extremes" => Stress::Extremes,
            other => {
                let hint = suggestion(other, ["scaled", "outliers", "structured", "extremes"]);
                errors.error_hint(
                    &item.span,
                    format!("unknown stress family `{other}`"),
                    hint.unwrap_or_default(),
                );
                return None;
            }
        };
        if found.contains(&family) {
            errors.error(&item.span, "a stress family named twice");
        }
        found.push(family);
    }
    Some(found)
}

const GENERATORS: [(&str, &[&str]); 11] = [
    ("normal", &["mean", "std", "outliers"]),
    ("uniform", &["lo", "hi"]),
    ("integers", &["lo", "hi"]),
    ("lengths", &["lo", "hi", "total"]),
    ("values", &["values"]),
    ("row_offsets", &["lengths"]),
    ("page_table", &["pool", "used"]),
    ("permutation", &[]),
    ("quantised", &["scales", "scale_axes", "std", "fraction"]),
    ("from_quantised", &[]),
    ("constant", &["value"]),
];

fn generator(item: &Item<'_>, errors: &mut Collector) -> Option<GeneratorRule> {
    let table = item.table("the generator", errors)?;
    let kind_item = table.require("kind", errors)?;
    let kind = kind_item.string(errors)?;
    let Some((_, parameters)) = GENERATORS.iter().find(|(name, _)| *name == kind) else {
        let hint = suggestion(kind, GENERATORS.iter().map(|(n, _)| *n));
        errors.error_hint(&kind_item.span, format!("unknown generator `{kind}`"), hint.unwrap_or_default());
        return None;
    };
    let mut table = table.clone();
    table.what = format!("the generator `{kind}`");
    let mut known = vec!["kind"];
    known.extend_from_slice(parameters);
    table.check_keys(&known, errors);
    let mut get = |key: &str| table.expression(key, errors);
    let kind = match kind {
        "normal" => {
            let (mean, std) = (get("mean"), get("std"));
            let outliers = table.optional_expression("outliers", errors);
            GeneratorKind::Normal { mean: mean?, std: std?, outliers: outliers? }
        }
        "uniform" => {
            let (lo, hi) = (get("lo"), get("hi"));
            GeneratorKind::Uniform { lo: lo?, hi: hi? }
        }
        "integers" => {
            let (lo, hi) = (get("lo"), get("hi"));
            GeneratorKind::Integers { lo: lo?, hi: hi? }
        }
        "lengths" => {
            let (lo, hi) = (get("lo"), get("hi"));
            let total = table.optional_expression("total", errors);
            GeneratorKind::Lengths { lo: lo?, hi: hi?, total: total? }
        }
        "values" => GeneratorKind::Values { values: get("values")? },
        "row_offsets" => GeneratorKind::RowOffsets { lengths: get("lengths")? },
        "page_table" => {
            let (pool, used) = (get("pool"), get("used"));
            GeneratorKind::PageTable { pool: pool?, used: used? }
        }
        "permutation" => GeneratorKind::Permutation,
        "quantised" => quantised(&table, errors)?,
        "from_quantised" => GeneratorKind::FromQuantised,
        _ => GeneratorKind::Constant { value: get("value")? },
    };
    Some(GeneratorRule { span: item.span.clone(), kind })
}

fn quantised(table: &Table<'_>, errors: &mut Collector) -> Option<GeneratorKind> {
    let scales = table.string("scales", errors).map(str::to_owned);
    let scale_axes = table.require("scale_axes", errors).and_then(|item| {
        let items = item.list(errors)?;
        let axes: Vec<_> =
            items.iter().map(|i| i.int(0..=MAX_RANK as i64 - 1, errors).map(|a| a as usize)).collect();
        let axes = axes.into_iter().collect::<Option<Vec<_>>>()?;
        if axes.windows(2).any(|w| w[0] >= w[1]) {
            errors.error(&item.span, "`scale_axes` must rise");
            return None;
        }
        Some(axes)
    });
    let (std, fraction) = (table.expression("std", errors), table.expression("fraction", errors));
    Some(GeneratorKind::Quantised {
        scales: scales?,
        scale_axes: scale_axes?,
        std: std?,
        fraction: fraction?,
    })
}

fn garbage(item: &Item<'_>, errors: &mut Collector) -> Option<GarbageRule> {
    let table = item.table("the garbage", errors)?;
    table.check_keys(&["value", "start", "end", "table"], errors);
    let [value, start, end] = ["value", "start", "end"].map(|key| table.expression(key, errors));
    let name = match table.get("table") {
        None => None,
        Some(item) => Some(item.string(errors)?.to_owned()),
    };
    Some(GarbageRule { span: item.span.clone(), value: value?, start: start?, end: end?, table: name })
}
