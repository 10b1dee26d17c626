//! Scenario files: one JSON object a line.

mod json;

use crate::diagnostic::{Collector, Diagnostic, Diagnostics, Source, suggestion};
use crate::problem::{FieldType, Problem, ScenarioFile};
use crate::value::Value;
use json::{Member, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

/// Longest scenario file in bytes.
const LONGEST_FILE: usize = 64 << 20;
/// Longest id or tag in bytes.
const LONGEST_ID: usize = 96;

/// One concrete case of a problem, as a scenario file gives it, defaults filled in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Scenario {
    /// Unique id.
    pub id: String,
    /// Tags.
    pub tags: Vec<String>,
    /// A remark.
    pub note: Option<String>,
    /// The file it is from; of the base scenario if it was drawn.
    pub source: Arc<Source>,
    /// Range of its line in that file.
    pub span: Range<usize>,
    /// Its line in that file, from 1.
    pub line: usize,
    /// Value of every declared field; null if it is optional and absent.
    pub values: BTreeMap<String, Value>,
}

impl Scenario {
    /// The scenario as a line of a scenario file, without the line break. Fields that are null are left out.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = format!("{{\"id\": {}", json::quote(&self.id));
        if !self.tags.is_empty() {
            let tags: Vec<String> = self.tags.iter().map(|t| json::quote(t)).collect();
            let _ = write!(line, ", \"tags\": [{}]", tags.join(", "));
        }
        if let Some(note) = &self.note {
            let _ = write!(line, ", \"note\": {}", json::quote(note));
        }
        for (name, value) in self.values.iter().filter(|(_, v)| **v != Value::Null) {
            let _ = write!(line, ", {}: {}", json::quote(name), json::write(value));
        }
        line.push('}');
        line
    }

    /// `file:line`, to point a person at it.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.source.name(), self.line)
    }
}

/// Parses the text of a set's file and keeps what has the set's tag. `file` is the name to show in messages.
///
/// # Errors
/// As [`parse_scenarios`].
pub fn of_set(
    problem: &Problem,
    set: &ScenarioFile,
    file: &str,
    text: &str,
) -> Result<Vec<Scenario>, Diagnostics> {
    let mut scenarios = parse_scenarios(problem, file, text)?;
    if let Some(tag) = &set.tag {
        scenarios.retain(|s| s.tags.contains(tag));
    }
    Ok(scenarios)
}

/// Parses the text of a scenario file. `file` is the name to show in messages.
///
/// # Errors
/// Everything that is wrong with it: lines that are no JSON objects, unknown or missing fields, values of the
/// wrong type or out of range, ids that are not unique.
pub fn parse_scenarios(problem: &Problem, file: &str, text: &str) -> Result<Vec<Scenario>, Diagnostics> {
    let source = Source::new(file, text);
    let mut errors = Collector::new(&source);
    if text.len() > LONGEST_FILE {
        errors.error(&(0..0), format!("a scenario file of {} bytes; at most {LONGEST_FILE}", text.len()));
        return errors.finish(None);
    }
    let mut found: Vec<Scenario> = Vec::new();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut start = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim_end();
        let span = start..start + content.len();
        start += line.len();
        if content.trim().is_empty() {
            continue;
        }
        if errors.is_full() {
            break;
        }
        let place = Line { source: &source, span, number: index + 1 };
        if let Some((scenario, id_span)) = read_line(problem, &place, content, &mut errors) {
            match ids.get(&scenario.id) {
                Some(first) => {
                    errors
                        .error(&id_span, format!("the id `{}` is already used in line {first}", scenario.id));
                }
                None => {
                    ids.insert(scenario.id.clone(), scenario.line);
                    found.push(scenario);
                }
            }
        }
    }
    if found.is_empty() && errors.count() == 0 {
        errors.error_hint(&(0..0), "no scenario", "write one JSON object a line");
    }
    errors.finish(Some(found))
}

/// Checks that every id of `scenarios.quick` is in the default set.
///
/// # Errors
/// The ids that are not, with their place in the problem file.
pub fn check_quick(problem: &Problem, default_set: &[Scenario]) -> Result<(), Diagnostics> {
    let mut errors = Collector::new(&problem.source);
    for quick in &problem.scenarios.quick {
        if !default_set.iter().any(|s| s.id == quick.id) {
            let set = &problem.scenarios.default;
            let message = format!("the set `{set}` has no scenario `{}`", quick.id);
            let hint = suggestion(&quick.id, default_set.iter().map(|s| s.id.as_str()));
            errors.push(Diagnostic::new(&problem.source, quick.span.clone(), message).with_hint_opt(hint));
        }
    }
    errors.finish(Some(()))
}

struct Line<'a> {
    source: &'a Arc<Source>,
    span: Range<usize>,
    number: usize,
}

impl Line<'_> {
    /// A range of the line as a range of the file.
    fn at(&self, local: &Range<usize>) -> Range<usize> {
        self.span.start + local.start..self.span.start + local.end
    }
}

fn read_line(
    problem: &Problem,
    line: &Line<'_>,
    content: &str,
    errors: &mut Collector,
) -> Option<(Scenario, Range<usize>)> {
    let members = match json::object(content) {
        Ok(members) => members,
        Err(fault) => {
            errors.error(&line.at(&fault.at), fault.message);
            return None;
        }
    };
    let before = errors.count();
    let mut seen = BTreeSet::new();
    for member in &members {
        if !seen.insert(member.key.as_str()) {
            errors.error(&line.at(&member.key_at), format!("a second `{}`", member.key));
        }
        let known = ["id", "tags", "note"].into_iter().chain(problem.fields.iter().map(|f| f.name.as_str()));
        if !known.clone().any(|k| k == member.key) {
            let message = format!("unknown field `{}`", member.key);
            let diagnostic = Diagnostic::new(line.source, line.at(&member.key_at), message);
            errors.push(diagnostic.with_hint_opt(suggestion(&member.key, known)));
        }
    }
    let get = |key: &str| members.iter().find(|m| m.key == key && m.value != Node::Null);
    let id = match get("id") {
        None => {
            errors.error(&line.span, "a scenario without `id`");
            None
        }
        Some(member) => id(member, line, errors),
    };
    let tags = get("tags").map_or(Some(Vec::new()), |m| tags(m, line, errors));
    let note = get("note").and_then(|m| match &m.value {
        Node::String(s) => Some(s.clone()),
        other => {
            errors.error(&line.at(&m.at), format!("`note` wants a string, not {}", other.kind()));
            None
        }
    });
    let mut values = BTreeMap::new();
    for field in &problem.fields {
        let value = match (get(&field.name), &field.default) {
            (Some(member), _) => {
                let Some(value) = member.value.to_value() else {
                    let message =
                        format!("`{}` wants {}, not {}", field.name, field.kind.name(), member.value.kind());
                    errors.error(&line.at(&member.at), message);
                    continue;
                };
                if let Some(refusal) = field.refusal(&value) {
                    let diagnostic = Diagnostic::new(line.source, line.at(&member.at), refusal);
                    errors.push(diagnostic.with_hint_opt(choices(field, &value)));
                    continue;
                }
                match (field.kind, value) {
                    (FieldType::Float, Value::Int(i)) => Value::Float(i as f64),
                    (_, value) => value,
                }
            }
            (None, Some(default)) => match (field.kind, default) {
                (FieldType::Float, Value::Int(i)) => Value::Float(*i as f64),
                (_, default) => default.clone(),
            },
            (None, None) if field.optional => Value::Null,
            (None, None) => {
                let at = get("id").map_or_else(|| line.span.clone(), |m| line.at(&m.at));
                let hint = format!("{} wants it ({})", problem.source.name(), field.kind.name());
                errors.error_hint(&at, format!("the field `{}` is missing", field.name), hint);
                continue;
            }
        };
        values.insert(field.name.clone(), value);
    }
    let (id, id_at) = id?;
    if errors.count() > before {
        return None;
    }
    let scenario = Scenario {
        id,
        tags: tags?,
        note,
        source: Arc::clone(line.source),
        span: line.span.clone(),
        line: line.number,
        values,
    };
    Some((scenario, id_at))
}

fn choices(field: &crate::problem::Field, value: &Value) -> Option<String> {
    let (Some(allowed), Value::String(s)) = (&field.one_of, value) else { return None };
    suggestion(s, allowed.iter().map(String::as_str))
}

fn id(member: &Member, line: &Line<'_>, errors: &mut Collector) -> Option<(String, Range<usize>)> {
    let at = line.at(&member.at);
    let Node::String(id) = &member.value else {
        errors.error(&at, format!("`id` wants a string, not {}", member.value.kind()));
        return None;
    };
    let plain = !id.is_empty()
        && id.len() <= LONGEST_ID
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !plain {
        errors.error_hint(
            &at,
            "not an id",
            format!("letters, digits, `_`, `.` and `-`, at most {LONGEST_ID} of them"),
        );
        return None;
    }
    Some((id.clone(), at))
}

fn tags(member: &Member, line: &Line<'_>, errors: &mut Collector) -> Option<Vec<String>> {
    let tags = match &member.value {
        Node::List(items) => items
            .iter()
            .map(|n| match n {
                Node::String(s) if !s.is_empty() && s.len() <= LONGEST_ID => Some(s.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    if tags.is_none() {
        errors.error(&line.at(&member.at), "`tags` wants a list of strings");
    }
    tags
}
