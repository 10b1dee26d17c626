//! The whole problem file.

use super::document::{self, Table};
use super::references::{self, Declared};
use super::{FORMAT, Problem, names, sections, tensor};
use crate::diagnostic::{Collector, Diagnostics};

/// Longest problem file in bytes.
const LONGEST_FILE: usize = 1 << 20;

const KEYS: [&str; 16] = [
    "format",
    "name",
    "summary",
    "target",
    "scenarios",
    "fields",
    "let",
    "tensor",
    "attribute",
    "cost",
    "reference",
    "seed",
    "build",
    "tolerance",
    "constraints",
    "held_out",
];

/// Parses and checks the text of a problem file. `file` is the name to show in messages.
///
/// # Errors
/// Everything that is wrong with it, in the order of the text; if it is not TOML, only that.
pub fn parse_problem(file: &str, text: &str) -> Result<Problem, Diagnostics> {
    document::read(file, text, "problem file", LONGEST_FILE, read)
}

fn read(root: &Table<'_>, errors: &mut Collector) -> Option<Problem> {
    check_format(root, errors)?;
    root.check_keys(&KEYS, errors);
    let name = name(root, errors);
    let summary = root.string("summary", errors).map(str::to_owned);
    let target = sections::target(root, errors);
    let scenarios = sections::scenarios(root, errors);
    let (fields, field_names) = sections::fields(root, errors);
    let (lets, let_names) = sections::lets(root, &field_names, errors);
    let (tensors, tensor_names) = tensor::tensors(root, errors);
    let attributes = sections::attributes(root, &tensor_names, errors);
    let cost = sections::cost(root, errors);
    let reference = sections::reference(root, target, errors);
    let seed = sections::seed(root, target, errors);
    let build = sections::build(root, target, errors);
    let tolerance = sections::tolerance(root, errors);
    let constraints = sections::constraints(root, errors);
    let held_out = sections::held_out(root, errors);

    let declared = Declared { fields: &field_names, lets: &let_names, tensors: &tensor_names };
    references::lets(&lets, &declared, errors);
    references::tensors(&tensors, &declared, errors);
    references::attributes(attributes.as_deref().unwrap_or_default(), &declared, errors);
    if let Some(Some(cost)) = &cost {
        references::names_of([&cost.flops, &cost.bytes], &declared, errors);
    }
    if let Some(tolerance) = &tolerance {
        references::tolerance(tolerance, root, &tensors, &declared, errors);
    }
    if let Some(Some(held_out)) = &held_out {
        references::held_out(held_out, root, &fields, &declared, errors);
    }

    Some(Problem {
        source: errors.source.clone(),
        name: name?,
        summary: summary?,
        target: target?,
        scenarios: scenarios?,
        fields,
        lets,
        tensors,
        attributes: attributes?,
        cost: cost?,
        reference: reference?,
        seed: seed?,
        build: build?,
        tolerance: tolerance?,
        constraints: constraints?,
        held_out: held_out?,
    })
}

/// A file of another version is not looked at any further: what is wrong with it would be noise.
fn check_format(root: &Table<'_>, errors: &mut Collector) -> Option<()> {
    let item = root.require("format", errors)?;
    let format = item.int(1..=i64::MAX, errors)?;
    if format != FORMAT {
        errors.error_hint(
            &item.span,
            format!("format {format} is not known"),
            format!("this version reads format {FORMAT}"),
        );
        return None;
    }
    Some(())
}

fn name(root: &Table<'_>, errors: &mut Collector) -> Option<String> {
    let item = root.require("name", errors)?;
    let name = item.string(errors)?;
    if let Some(refusal) = names::refuse_problem(name) {
        errors.error_hint(&item.span, refusal, "the name is also the C entry point");
        return None;
    }
    Some(name.to_owned())
}
