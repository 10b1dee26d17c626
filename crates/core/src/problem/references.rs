//! Names that one part of the file uses and another declares.

use super::document::Table;
use super::{Attribute, Axes, Field, FieldType, GeneratorKind, HeldOut, Let, Tensor, ToleranceTable, Vary};
use crate::diagnostic::{Collector, Diagnostic, suggestion};
use crate::dtype::DType;
use crate::expression::{Expression, find_name};
use crate::value::Value;
use std::ops::Range;

/// Every declared name, the broken declarations too, so that one mistake is reported once.
pub(super) struct Declared<'a> {
    pub(super) fields: &'a [String],
    pub(super) lets: &'a [String],
    pub(super) tensors: &'a [String],
}

impl Declared<'_> {
    fn variables(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().chain(self.lets).map(String::as_str)
    }
}

/// Range in the file of a variable of an expression.
fn place(expression: &Expression, name: &str, errors: &Collector) -> Range<usize> {
    let span = expression.span();
    if errors.source.text().get(span.clone()) == Some(expression.text()) {
        let at = find_name(expression.text(), name);
        span.start + at.start..span.start + at.end
    } else {
        span
    }
}

fn check(expression: &Expression, known: &[&str], declared: &Declared<'_>, errors: &mut Collector) {
    for name in expression.names().filter(|n| !known.contains(n)) {
        let hint = if declared.lets.iter().any(|l| l == name) {
            Some(format!(
                "`{name}` is declared further down: an expression of [let] reads fields and earlier ones"
            ))
        } else if declared.tensors.iter().any(|t| t == name) {
            Some(format!("`{name}` is a tensor: expressions read fields and [let] only"))
        } else if DType::from_name(name).is_some() {
            Some(format!("a dtype inside an expression is a string: '{name}'"))
        } else {
            suggestion(name, known.iter().copied()).or_else(|| Some("declare it in [fields] or [let]".into()))
        };
        let at = place(expression, name, errors);
        let diagnostic = Diagnostic::new(&errors.source, at, format!("unknown variable `{name}`"));
        errors.push(diagnostic.with_hint_opt(hint));
    }
}

/// Checks expressions that may use every field and every named expression.
pub(super) fn names_of<'e>(
    expressions: impl IntoIterator<Item = &'e Expression>,
    declared: &Declared<'_>,
    errors: &mut Collector,
) {
    let known: Vec<&str> = declared.variables().collect();
    for expression in expressions {
        check(expression, &known, declared, errors);
    }
}

pub(super) fn lets(lets: &[Let], declared: &Declared<'_>, errors: &mut Collector) {
    for l in lets {
        let earlier = declared.lets.iter().take_while(|n| **n != l.name);
        let known: Vec<&str> = declared.fields.iter().chain(earlier).map(String::as_str).collect();
        check(&l.value, &known, declared, errors);
    }
}

pub(super) fn attributes(attributes: &[Attribute], declared: &Declared<'_>, errors: &mut Collector) {
    names_of(attributes.iter().map(|a| &a.value), declared, errors);
}

pub(super) fn tensors(tensors: &[Tensor], declared: &Declared<'_>, errors: &mut Collector) {
    for t in tensors {
        check_dtype(&t.dtype, declared, errors);
        let optional = [&t.when, &t.offset, &t.storage, &t.misalign, &t.extreme];
        let all = t
            .shape
            .expressions()
            .chain(t.stride.iter().flat_map(Axes::expressions))
            .chain(optional.into_iter().flatten());
        names_of(all, declared, errors);
        if let Some(rule) = &t.generator {
            names_of(parameters(&rule.kind), declared, errors);
        }
        if let Some(rule) = &t.garbage {
            names_of([&rule.value, &rule.start, &rule.end], declared, errors);
        }
    }
    for t in tensors {
        scales(t, tensors, declared, errors);
        garbage_table(t, tensors, declared, errors);
    }
}

/// A lone unknown word in `dtype` is more likely a misspelt dtype than a missing variable.
fn check_dtype(dtype: &Expression, declared: &Declared<'_>, errors: &mut Collector) {
    let known: Vec<&str> = declared.variables().collect();
    let text = dtype.text().trim();
    if dtype.names().eq([text]) && !known.contains(&text) {
        let names = DType::ALL.map(DType::name);
        let diagnostic = Diagnostic::new(&errors.source, dtype.span(), format!("unknown dtype `{text}`"));
        errors
            .push(diagnostic.with_hint_opt(suggestion(text, names.into_iter().chain(known.iter().copied()))));
    } else {
        check(dtype, &known, declared, errors);
    }
}

fn parameters(kind: &GeneratorKind) -> Vec<&Expression> {
    match kind {
        GeneratorKind::Normal { mean, std, outliers } => [mean, std].into_iter().chain(outliers).collect(),
        GeneratorKind::Uniform { lo: a, hi: b }
        | GeneratorKind::Integers { lo: a, hi: b }
        | GeneratorKind::PageTable { pool: a, used: b }
        | GeneratorKind::Quantised { std: a, fraction: b, .. } => vec![a, b],
        GeneratorKind::Lengths { lo, hi, total } => [lo, hi].into_iter().chain(total).collect(),
        GeneratorKind::Values { values: a }
        | GeneratorKind::RowOffsets { lengths: a }
        | GeneratorKind::Constant { value: a } => vec![a],
        GeneratorKind::Permutation | GeneratorKind::FromQuantised => Vec::new(),
    }
}

/// `quantised` and `from_quantised` come in pairs.
fn scales(tensor: &Tensor, tensors: &[Tensor], declared: &Declared<'_>, errors: &mut Collector) {
    let Some(rule) = &tensor.generator else { return };
    match &rule.kind {
        GeneratorKind::Quantised { scales, scale_axes, .. } => {
            if let Some(rank) = tensor.shape.rank()
                && let Some(axis) = scale_axes.iter().find(|a| **a >= rank)
            {
                let message = format!("`scale_axes`: `{}` has no axis {axis}", tensor.name);
                errors.error(&rule.span, message);
            }
            match tensors.iter().find(|t| t.name == *scales) {
                Some(target) => {
                    let fits = target
                        .generator
                        .as_ref()
                        .is_some_and(|g| matches!(g.kind, GeneratorKind::FromQuantised));
                    if !fits {
                        errors.error_hint(
                            &rule.span,
                            format!("the scales go to `{scales}`, whose generator is not `from_quantised`"),
                            format!("give `{scales}` the generator {{ kind = \"from_quantised\" }}"),
                        );
                    }
                }
                None if declared.tensors.contains(scales) => {}
                None => unknown_tensor(scales, &rule.span, declared, errors),
            }
        }
        GeneratorKind::FromQuantised => {
            let named = |t: &&Tensor| {
                t.generator.as_ref().is_some_and(
                    |g| matches!(&g.kind, GeneratorKind::Quantised { scales, .. } if *scales == tensor.name),
                )
            };
            let sources = tensors.iter().filter(named).count();
            if sources > 1 || (sources == 0 && tensors.len() == declared.tensors.len()) {
                let message = format!("`{}` takes its content from {sources} quantised tensors", tensor.name);
                errors.error_hint(
                    &rule.span,
                    message,
                    "exactly one `quantised` generator names it in `scales`",
                );
            }
        }
        _ => {}
    }
}

fn garbage_table(tensor: &Tensor, tensors: &[Tensor], declared: &Declared<'_>, errors: &mut Collector) {
    let Some(rule) = &tensor.garbage else { return };
    let Some(name) = &rule.table else { return };
    match tensors.iter().find(|t| t.name == *name) {
        Some(table) => {
            let fits =
                table.generator.as_ref().is_some_and(|g| matches!(g.kind, GeneratorKind::PageTable { .. }));
            if !fits {
                errors.error(&rule.span, format!("`{name}` is not generated as a `page_table`"));
            }
        }
        None if declared.tensors.contains(name) => {}
        None => unknown_tensor(name, &rule.span, declared, errors),
    }
}

fn unknown_tensor(name: &str, within: &Range<usize>, declared: &Declared<'_>, errors: &mut Collector) {
    // The name stands as a string somewhere in the inline table.
    let text = errors.source.text().get(within.clone()).unwrap_or_default();
    let quoted = [format!("\"{name}\""), format!("'{name}'")];
    let at = quoted
        .iter()
        .find_map(|q| text.find(q.as_str()).map(|i| within.start + i..within.start + i + q.len()))
        .unwrap_or_else(|| within.clone());
    let diagnostic = Diagnostic::new(&errors.source, at, format!("unknown tensor `{name}`"));
    errors.push(diagnostic.with_hint_opt(suggestion(name, declared.tensors.iter().map(String::as_str))));
}

pub(super) fn tolerance(
    table: &ToleranceTable,
    root: &Table<'_>,
    tensors: &[Tensor],
    declared: &Declared<'_>,
    errors: &mut Collector,
) {
    let places =
        root.get("tolerance").and_then(|i| i.table("[tolerance]", &mut Collector::new(&errors.source)));
    for (name, _) in &table.outputs {
        let Some(item) = places.as_ref().and_then(|p| p.get(name)) else { continue };
        match tensors.iter().find(|t| t.name == *name) {
            Some(t) if t.role.is_output() => {}
            Some(_) => errors.error(&item.key_span, format!("`{name}` is not an output")),
            None if declared.tensors.contains(name) => {}
            None => {
                let outputs = tensors.iter().filter(|t| t.role.is_output()).map(|t| t.name.as_str());
                let d = Diagnostic::new(
                    &errors.source,
                    item.key_span.clone(),
                    format!("unknown output `{name}`"),
                );
                errors.push(d.with_hint_opt(suggestion(name, outputs)));
            }
        }
    }
    let rules = std::iter::once(&table.all).chain(table.outputs.iter().map(|(_, r)| r));
    let expressions =
        rules.flat_map(|r| [&r.k, &r.rms_k, &r.floor_ulps, &r.floor_abs, &r.rel_rms_max, &r.atol]).flatten();
    names_of(expressions, declared, errors);
}

pub(super) fn held_out(
    rules: &HeldOut,
    root: &Table<'_>,
    fields: &[Field],
    declared: &Declared<'_>,
    errors: &mut Collector,
) {
    names_of(rules.keep.iter(), declared, errors);
    let mut quiet = Collector::new(&errors.source);
    let places = root
        .get("held_out")
        .and_then(|i| i.table("", &mut quiet))
        .and_then(|t| t.get("vary").and_then(|i| i.table("", &mut quiet)));
    for (at, rule) in rules.vary.iter().enumerate() {
        let name = &rule.field;
        let Some(item) = places.as_ref().and_then(|p| p.get(name)) else { continue };
        let Some(field) = fields.iter().find(|f| f.name == *name) else {
            if !declared.fields.contains(name) {
                let d =
                    Diagnostic::new(&errors.source, item.key_span.clone(), format!("unknown field `{name}`"));
                errors.push(d.with_hint_opt(suggestion(name, declared.fields.iter().map(String::as_str))));
            }
            continue;
        };
        let integral = matches!(field.kind, FieldType::Int | FieldType::IntList);
        let with = match &rule.vary {
            Vary::Scale { with, .. } => with.as_ref(),
            _ => None,
        };
        for (key, other) in [("with", with), ("length", rule.length.as_ref())] {
            let Some(other) = other else { continue };
            // What it is taken from must have been varied by then.
            let earlier = rules.vary[..at].iter().find(|r| r.field == *other);
            let (fits, wanted) = match key {
                "with" => (
                    earlier.is_some_and(|r| matches!(r.vary, Vary::Scale { .. })),
                    "field with `scale` above",
                ),
                _ => {
                    let int = fields.iter().any(|f| f.name == *other && f.kind == FieldType::Int);
                    (int && earlier.is_some(), "int field with a rule above")
                }
            };
            if !fits {
                errors.error(&item.span, format!("`{key}` of `{name}`: `{other}` is no {wanted}"));
            }
        }
        if rule.length.is_some() && field.kind != FieldType::IntList {
            errors.error(&item.span, format!("`{name}` is no list: `length` means nothing"));
        }
        match &rule.vary {
            Vary::Scale { .. } | Vary::Add { .. } if !integral => {
                let message = format!(
                    "`{name}` is a {} field: only int and int_list vary by numbers",
                    field.kind.name()
                );
                errors.error_hint(&item.span, message, "use `choose`");
            }
            Vary::Scale { .. } | Vary::Add { .. } => {}
            Vary::Choose(_) if field.kind == FieldType::IntList => {
                errors.error(&item.span, format!("`{name}` has type int_list: use `scale` or `add`"));
            }
            Vary::Choose(values) => {
                if let Some(refusal) = values.iter().find_map(|v: &Value| field.refusal(v)) {
                    errors.error(&item.span, refusal);
                }
            }
        }
    }
}
