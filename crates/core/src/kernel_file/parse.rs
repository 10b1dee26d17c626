//! Reads a kernel file.

use super::{
    Choice, Chosen, FORMAT, Flag, KernelFile, LONGEST_FILE, MOST_ASSIGNMENTS, Tunable, VALUE, flags,
};
use crate::diagnostic::{Collector, Diagnostic, Diagnostics, suggestion};
use crate::dtype::DType;
use crate::expression::{Expression, find_name};
use crate::problem::Problem;
use crate::problem::document::{self, Item, Table};
use crate::problem::names;
use crate::value::Value;
use std::collections::BTreeMap;

/// Largest magnitude of an integer value.
const LARGEST: i64 = 1_000_000_000;
/// Most tunables, and most flags.
const MOST: usize = 64;
/// What the names of the contract and of the routes begin with, after `ks_`.
const TAKEN: [&str; 7] = ["route_", "routes", "values_", "problem_", "call_", "ok", "abi"];

/// Parses the text of a kernel file of a candidate for `problem`. `file` is the name to show in messages.
///
/// # Errors
/// Everything that is wrong with it, in the order of the text; if it is not TOML, only that.
pub fn parse_kernel(problem: &Problem, file: &str, text: &str) -> Result<KernelFile, Diagnostics> {
    document::read(file, text, "kernel file", LONGEST_FILE, |root, errors| read(problem, root, errors))
}

fn read(problem: &Problem, root: &Table<'_>, errors: &mut Collector) -> Option<KernelFile> {
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
    root.check_keys(&["format", "tunable", "build"], errors);
    let tunables = tunables(problem, root, errors);
    let (chosen, flags) = build(root, &tunables, errors)?;
    Some(KernelFile { source: errors.source.clone(), tunables, chosen, flags })
}

fn tunables(problem: &Problem, root: &Table<'_>, errors: &mut Collector) -> Vec<Tunable> {
    let Some(list) = root.get("tunable") else { return Vec::new() };
    let Some(items) = list.list(errors) else { return Vec::new() };
    if items.len() > MOST {
        errors.error(&list.span, format!("{} tunables; at most {MOST}", items.len()));
        return Vec::new();
    }
    let mut found: Vec<Tunable> = Vec::new();
    let mut assignments = 1usize;
    for item in &items {
        let Some(table) = item.table("[[tunable]]", errors) else { continue };
        table.check_keys(&["name", "values", "default", "where"], errors);
        let Some(tunable) = tunable(problem, &table, errors) else { continue };
        if found.iter().any(|t| t.name == tunable.name) {
            errors.error(&tunable.span, format!("a second tunable `{}`", tunable.name));
            continue;
        }
        let before = assignments;
        assignments = assignments.saturating_mul(tunable.values.len());
        if before <= MOST_ASSIGNMENTS && assignments > MOST_ASSIGNMENTS {
            errors.error_hint(
                &tunable.span,
                format!("with `{}` there are more than {MOST_ASSIGNMENTS} assignments", tunable.name),
                "declare fewer tunables or fewer values",
            );
        }
        found.push(tunable);
    }
    found
}

fn tunable(problem: &Problem, table: &Table<'_>, errors: &mut Collector) -> Option<Tunable> {
    let name = table.require("name", errors)?;
    let text = name.string(errors)?;
    let named = match refuse_name(text) {
        None => Some(text.to_owned()),
        Some(refusal) => {
            errors.error_hint(
                &name.span,
                refusal,
                "the value arrives as the macro `KS_` and the name in capitals",
            );
            None
        }
    };
    let values = values(table, errors);
    let default = table.require("default", errors).and_then(|item| {
        let default = choice(item, errors)?;
        if let Some(values) = &values
            && !values.contains(&default)
        {
            let list: Vec<String> = values.iter().map(Choice::to_string).collect();
            let hint = format!("one of {}", list.join(", "));
            errors.error_hint(&item.span, format!("the default {default} is not among the values"), hint);
            return None;
        }
        Some(default)
    });
    let condition = table.optional_expression("where", errors);
    if let Some(Some(condition)) = &condition {
        names_of(problem, condition, errors);
    }
    Some(Tunable {
        name: named?,
        values: values?,
        default: default?,
        condition: condition?,
        span: name.span.clone(),
    })
}

fn values(table: &Table<'_>, errors: &mut Collector) -> Option<Vec<Choice>> {
    let list = table.require("values", errors)?;
    let items = list.list(errors)?;
    if items.is_empty() {
        errors.error(&list.span, "`values` is empty");
        return None;
    }
    if items.len() > MOST_ASSIGNMENTS {
        errors.error(&list.span, format!("{} values; at most {MOST_ASSIGNMENTS}", items.len()));
        return None;
    }
    let mut found: Vec<Choice> = Vec::new();
    for item in &items {
        let value = choice(item, errors)?;
        if found.contains(&value) {
            errors.error(&item.span, format!("{value} stands twice in `values`"));
            return None;
        }
        let word = |c: &Choice| matches!(c, Choice::Word(_));
        if found.first().is_some_and(|first| word(first) != word(&value)) {
            errors.error(&item.span, "`values` are integers or words, not both");
            return None;
        }
        found.push(value);
    }
    Some(found)
}

fn choice(item: &Item<'_>, errors: &mut Collector) -> Option<Choice> {
    match item.scalar() {
        Some(Value::Int(i)) if (-LARGEST..=LARGEST).contains(&i) => Some(Choice::Int(i)),
        Some(Value::Int(_)) => {
            errors.error(&item.span, format!("an integer value is from -{LARGEST} to {LARGEST}"));
            None
        }
        Some(Value::String(word)) => match names::refuse_c_identifier(&word) {
            None => Some(Choice::Word(word)),
            Some(refusal) => {
                errors.error_hint(&item.span, refusal, "a word becomes a part of C identifiers");
                None
            }
        },
        _ => {
            errors.error(&item.span, format!("`{}` wants an integer or a word", item.key));
            None
        }
    }
}

/// Why `name` cannot be a tunable's, if it cannot.
fn refuse_name(name: &str) -> Option<String> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.len() <= 32;
    if !plain {
        return Some(format!("`{name}` is not a lowercase name of up to 32 characters ([a-z][a-z0-9_]*)"));
    }
    let contract = TAKEN.iter().any(|t| name == *t || (t.ends_with('_') && name.starts_with(t)))
        || matches!(name, "unsupported" | "error")
        || DType::from_name(name).is_some();
    contract.then(|| format!("`KS_{}` has a meaning of its own", name.to_uppercase()))
}

/// Checks that a condition reads fields of the scenario and `value` only.
fn names_of(problem: &Problem, condition: &Expression, errors: &mut Collector) {
    let known: Vec<&str> = problem.fields.iter().map(|f| f.name.as_str()).chain([VALUE]).collect();
    for name in condition.names().filter(|n| !known.contains(n)) {
        let span = condition.span();
        let span = if errors.source.text().get(span.clone()) == Some(condition.text()) {
            let at = find_name(condition.text(), name);
            span.start + at.start..span.start + at.end
        } else {
            span
        };
        let hint = suggestion(name, known.iter().copied())
            .or_else(|| Some("`where` reads fields of the scenario, and `value`".to_owned()));
        let diagnostic = Diagnostic::new(&errors.source, span, format!("unknown variable `{name}`"));
        errors.push(diagnostic.with_hint_opt(hint));
    }
}

fn build(root: &Table<'_>, tunables: &[Tunable], errors: &mut Collector) -> Option<(Chosen, Vec<Flag>)> {
    let Some(item) = root.get("build") else { return Some((Chosen::default(), Vec::new())) };
    let table = item.table("[build]", errors)?;
    table.check_keys(&["flags", "set", "routes"], errors);
    let flags = chosen_flags(&table, errors);
    let set = match table.get("set") {
        None => Some(BTreeMap::new()),
        Some(item) => set(item, tunables, errors),
    };
    let routes = table.get("routes").map_or(Some(false), |i| i.bool(errors));
    let flags = flags?;
    let chosen = Chosen { set: set?, routes: routes?, flags: flags.iter().map(|f| f.text.clone()).collect() };
    Some((chosen, flags))
}

fn chosen_flags(table: &Table<'_>, errors: &mut Collector) -> Option<Vec<Flag>> {
    let Some(list) = table.get("flags") else { return Some(Vec::new()) };
    let items = list.list(errors)?;
    if items.len() > MOST {
        errors.error(&list.span, format!("{} flags; at most {MOST}", items.len()));
        return None;
    }
    let mut found: Vec<Flag> = Vec::new();
    for item in &items {
        let text = item.string(errors)?;
        if let Some(refusal) = flags::refusal(text) {
            errors.error(&item.span, refusal);
        } else if found.iter().any(|f| f.text == text) {
            errors.error(&item.span, format!("`{text}` stands twice"));
        } else {
            found.push(Flag { text: text.to_owned(), span: item.span.clone() });
        }
    }
    Some(found)
}

fn set(item: &Item<'_>, tunables: &[Tunable], errors: &mut Collector) -> Option<BTreeMap<String, Choice>> {
    let table = item.table("`set`", errors)?;
    let mut found = BTreeMap::new();
    for item in &table.items {
        let Some(tunable) = tunables.iter().find(|t| t.name == item.key) else {
            let known = tunables.iter().map(|t| t.name.as_str());
            let diagnostic =
                Diagnostic::new(&errors.source, item.key_span.clone(), format!("no tunable `{}`", item.key));
            errors.push(diagnostic.with_hint_opt(suggestion(&item.key, known)));
            continue;
        };
        let Some(value) = choice(item, errors) else { continue };
        if tunable.values.contains(&value) {
            found.insert(item.key.clone(), value);
        } else {
            let list: Vec<String> = tunable.values.iter().map(Choice::to_string).collect();
            let hint = format!("one of {}", list.join(", "));
            errors.error_hint(&item.span, format!("{value} is not among the values of `{}`", item.key), hint);
        }
    }
    Some(found)
}
