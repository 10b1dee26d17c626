//! Rule 5: expressions are expressions, over names that exist, and no empty answer is an answer.

use super::Lint;
use crate::answer::{AnswerError, judge};
use crate::bank::Bank;
use crate::entry::{Entry, Evidence, Field, Scalar};
use crate::formula::Formula;
use crate::signals;
use kernelseek_core::expression::Expression;
use kernelseek_core::value::Value;
use std::collections::BTreeSet;

/// Rows of the plain answer that predicates are tried on.
const ROWS: usize = 12;

/// What is wrong with the expressions of a bank.
pub(crate) fn expressions(bank: &Bank) -> Vec<Lint> {
    let mut found = Vec::new();
    for entry in bank.entries() {
        trigger(entry, &mut found);
        predicates(entry, &mut found);
    }
    found
}

fn parsed<'e>(entry: &Entry, formula: &'e Formula, found: &mut Vec<Lint>) -> Option<&'e Expression> {
    match formula.expression() {
        Ok(expression) => Some(expression),
        Err(error) => {
            let lint = Lint::new(5, entry, formula.place(&error.at), error.message.clone());
            found.push(match &error.hint {
                Some(hint) => lint.hint(hint.clone()),
                None => lint,
            });
            None
        }
    }
}

fn unknown(entry: &Entry, span: std::ops::Range<usize>, name: &str, found: &mut Vec<Lint>) {
    found.push(Lint::new(5, entry, span, format!("no signal is called `{name}`")));
}

fn trigger(entry: &Entry, found: &mut Vec<Lint>) {
    let declared: BTreeSet<&str> = entry.trigger.signals.iter().map(String::as_str).collect();
    for name in declared.iter().filter(|n| signals::find(n).is_none()) {
        unknown(entry, entry.place.signals.clone(), name, found);
    }
    for name in entry.applies_to.requires_signals.iter().filter(|n| signals::find(n).is_none()) {
        unknown(entry, entry.place.requires.clone(), name, found);
    }
    if let Some(expression) = parsed(entry, &entry.trigger.expr, found) {
        let read: BTreeSet<&str> = expression.names().collect();
        if read.is_empty() {
            found.push(Lint::new(5, entry, entry.trigger.expr.span(), "a trigger reads at least one signal"));
        }
        for name in read.difference(&declared) {
            let lint =
                Lint::new(5, entry, entry.trigger.expr.span(), format!("`{name}` is not in `signals`"));
            found.push(lint);
        }
        for name in declared.difference(&read) {
            found.push(Lint::new(
                5,
                entry,
                entry.place.signals.clone(),
                format!("the trigger does not read `{name}`"),
            ));
        }
    }
    for formula in &entry.trigger.suppress_if {
        let names: Vec<String> = parsed(entry, formula, found)
            .into_iter()
            .flat_map(Expression::names)
            .map(str::to_owned)
            .collect();
        for name in names.iter().filter(|n| signals::find(n).is_none()) {
            unknown(entry, formula.span(), name, found);
        }
    }
}

fn predicates(entry: &Entry, found: &mut Vec<Lint>) {
    let mut types: Vec<&Field> = Vec::new();
    for evidence in &entry.evidence_expected {
        for field in &evidence.fields {
            match types.iter().find(|f| f.name == field.name) {
                Some(earlier) if earlier.of != field.of => {
                    let message = format!("`{}` is {} here and {} before", field.name, field.of, earlier.of);
                    found.push(Lint::new(5, entry, evidence.fields_span.clone(), message));
                }
                _ => types.push(field),
            }
        }
        predicate(entry, evidence, found);
    }
}

fn predicate(entry: &Entry, evidence: &Evidence, found: &mut Vec<Lint>) {
    for field in evidence.fields.iter().filter(|f| !names_word(&evidence.artifact, &f.name)) {
        let message = format!("the artefact's phrase does not name `{}`", field.name);
        found.push(Lint::new(5, entry, evidence.artifact_span.clone(), message));
    }
    let Some(expression) = parsed(entry, &evidence.predicate, found) else { return };
    let read: BTreeSet<&str> = expression.names().collect();
    let fields: BTreeSet<&str> = evidence.fields.iter().map(|f| f.name.as_str()).collect();
    for name in read.difference(&fields) {
        found.push(Lint::new(
            5,
            entry,
            evidence.predicate.span(),
            format!("`{name}` is no field of the artefact"),
        ));
    }
    for name in fields.difference(&read) {
        let message = format!("the predicate does not read `{name}`");
        let lint = Lint::new(5, entry, evidence.predicate.span(), message);
        found.push(lint.hint("a field that nothing reads is a question that nobody asked"));
    }
    if !read.is_subset(&fields) {
        return;
    }
    let span = || evidence.predicate.span();
    let empty: Vec<_> = evidence.fields.iter().map(|f| (f.name.as_str(), nothing(f))).collect();
    match judge(entry, evidence, &empty) {
        Ok(true) => found.push(Lint::new(5, entry, span(), "the predicate is true of an empty answer")),
        // Of an empty list there is no largest element, for instance: not true either.
        Ok(false) | Err(AnswerError::Evaluation { .. }) => {}
        Err(error) => found.push(Lint::new(5, entry, span(), error.to_string())),
    }
    let plain: Vec<_> = evidence.fields.iter().map(|f| (f.name.as_str(), something(f))).collect();
    if let Err(error) = judge(entry, evidence, &plain) {
        let why = match &error {
            AnswerError::Evaluation { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        found.push(Lint::new(5, entry, span(), format!("the predicate fails on an answer of ones: {why}")));
    }
}

/// Whether `name` stands in a text as a word of its own.
fn names_word(text: &str, name: &str) -> bool {
    let joined = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !joined(c)).any(|word| word == name)
}

fn nothing(field: &Field) -> Value {
    if field.of.list {
        return Value::List(Vec::new());
    }
    match field.of.scalar {
        Scalar::Int => Value::Int(0),
        Scalar::Double => Value::Float(0.0),
        Scalar::Bool => Value::Bool(false),
        Scalar::String => Value::String(String::new()),
    }
}

fn something(field: &Field) -> Value {
    let one = match field.of.scalar {
        Scalar::Int => Value::Int(1),
        Scalar::Double => Value::Float(1.0),
        Scalar::Bool => Value::Bool(true),
        Scalar::String => Value::String("one".to_owned()),
    };
    if field.of.list { Value::List(vec![one; ROWS]) } else { one }
}
