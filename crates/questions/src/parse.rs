//! Entries as a file of the bank writes them.

use crate::document::{Faults, Item, Table};
use crate::entry::{
    AppliesTo, Budget, Entry, Evidence, Field, FieldType, LeakCheck, Place, Provenance, Stats, Trigger,
    Uplift, is_id,
};
use crate::formula::Formula;
use crate::names::{AnswerForm, Group, Intent, ProvenanceKind, Status};
use kernelseek_core::decision::{DecisionPoint, Layer};
use std::ops::Range;
use std::sync::Arc;

/// Longest question in characters.
const LONGEST_QUESTION: usize = 220;
/// Evaluations between two asks without a word of the entry.
const COOLDOWN: u64 = 10;
/// Asks in one campaign without a word of the entry.
const MAX_ASKS: u64 = 2;

const KEYS: [&str; 17] = [
    "id",
    "version",
    "status",
    "group",
    "layer_to",
    "intent",
    "decision_points",
    "question",
    "answer_form",
    "evidence_expected",
    "trigger",
    "budget",
    "provenance",
    "applies_to",
    "leak_check",
    "stats",
    "supersedes",
];

/// All entries of a file that could be read; what is wrong with the others is in `faults`.
pub(crate) fn entries(root: &Table<'_>, faults: &mut Faults) -> Vec<Entry> {
    root.check_keys(&["entry"], faults);
    let items = root.require("entry", faults).and_then(|item| item.list(faults)).unwrap_or_default();
    let mut found: Vec<Entry> = Vec::new();
    for item in items {
        let Some(read) = item.table("[[entry]]", faults).and_then(|t| entry(&t, faults)) else { continue };
        if let Some(earlier) = found.iter().find(|e| e.id == read.id) {
            let line = earlier.place().1;
            faults.error(&read.place.entry, format!("`{}` stands already at line {line}", read.id));
        } else {
            found.push(read);
        }
    }
    found
}

fn entry(t: &Table<'_>, faults: &mut Faults) -> Option<Entry> {
    t.check_keys(&KEYS, faults);
    let group = name(t, "group", Group::ALL, Group::as_str, faults);
    let id = id(t, group, faults);
    let version = t.require("version", faults).and_then(|i| i.int(1..=u64::from(u32::MAX), faults));
    let status = name(t, "status", Status::ALL, Status::as_str, faults);
    let layer_to = optional(t, "layer_to", faults, |i, f| one_of(i, &Layer::ALL, Layer::as_str, f));
    let intent = optional(t, "intent", faults, |i, f| one_of(i, Intent::ALL, Intent::as_str, f));
    let decision_points = points(t, faults);
    let question = question(t, faults);
    let answer_form = name(t, "answer_form", AnswerForm::ALL, AnswerForm::as_str, faults);
    let evidence_expected = evidence(t, faults);
    let trigger = section(t, "trigger", faults).and_then(|s| trigger(&s, faults));
    let budget = section(t, "budget", faults).and_then(|s| budget(&s, faults));
    let provenance = section(t, "provenance", faults).and_then(|s| provenance(&s, faults));
    let applies_to = section(t, "applies_to", faults).and_then(|s| applies_to(&s, faults));
    let leak_check =
        optional(t, "leak_check", faults, |i, f| i.table("leak_check", f).and_then(|s| leak_check(&s, f)));
    let stats = optional(t, "stats", faults, |i, f| i.table("stats", f).and_then(|s| stats(&s, f)));
    let supersedes = optional(t, "supersedes", faults, |i, f| i.strings(f));

    let at = |table: Option<&str>, key: &str| -> Range<usize> {
        let inner = match table {
            Some(table) => t.get(table).and_then(|i| i.table(table, &mut Faults::new(&faults.source))),
            None => return t.get(key).map_or(t.span.clone(), |i| i.span.clone()),
        };
        inner.and_then(|s| s.get(key).map(|i| i.span.clone())).unwrap_or_else(|| t.span.clone())
    };
    let place = Place {
        source: Arc::clone(&faults.source),
        entry: t.get("id").map_or(t.span.clone(), |i| i.span.clone()),
        question: t.get("question").map_or(t.span.clone(), |i| i.inner(faults)),
        signals: at(Some("trigger"), "signals"),
        requires: at(Some("applies_to"), "requires_signals"),
        references: at(None, "provenance"),
        leak_check: at(None, "leak_check"),
        stats: at(None, "stats"),
    };
    Some(Entry {
        id: id?,
        version: version?,
        status: status?,
        group: group?,
        layer_to: layer_to?,
        intent: intent?,
        decision_points: decision_points?,
        question: question?,
        answer_form: answer_form?,
        evidence_expected: evidence_expected?,
        trigger: trigger?,
        budget: budget?,
        provenance: provenance?,
        applies_to: applies_to?,
        leak_check: leak_check?,
        stats: stats?,
        supersedes: supersedes?.unwrap_or_default(),
        place,
    })
}

/// The value under `key`: `Some(None)` if the key is absent, `None` if it is wrong.
fn optional<'a, T>(
    t: &Table<'a>,
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&Item<'a>, &mut Faults) -> Option<T>,
) -> Option<Option<T>> {
    match t.get(key) {
        None => Some(None),
        Some(item) => read(item, faults).map(Some),
    }
}

fn section<'a>(t: &Table<'a>, key: &str, faults: &mut Faults) -> Option<Table<'a>> {
    t.require(key, faults)?.table(key, faults)
}

fn one_of<T: Copy>(
    item: &Item<'_>,
    all: &[T],
    text: fn(T) -> &'static str,
    faults: &mut Faults,
) -> Option<T> {
    let written = item.string(faults)?;
    let found = all.iter().copied().find(|v| text(*v) == written);
    if found.is_none() {
        let list: Vec<String> = all.iter().map(|v| format!("`{}`", text(*v))).collect();
        let message = format!("`{written}` is no value of `{}`", item.key);
        faults.error_hint(&item.span, message, format!("one of {}", list.join(", ")));
    }
    found
}

fn name<T: Copy>(
    t: &Table<'_>,
    key: &str,
    all: &[T],
    text: fn(T) -> &'static str,
    faults: &mut Faults,
) -> Option<T> {
    one_of(t.require(key, faults)?, all, text, faults)
}

fn id(t: &Table<'_>, group: Option<Group>, faults: &mut Faults) -> Option<String> {
    let item = t.require("id", faults)?;
    let id = item.string(faults)?;
    let group = group?;
    if !is_id(id, group) {
        let form = match group {
            Group::Alt => "`X1` to `X5`",
            Group::Arch => "`A-`, an architecture in lowercase letters and digits, `-` and two digits",
            _ => "`C` and three digits",
        };
        let message = format!("`{id}` is no id of group {group}");
        faults.error_hint(&item.span, message, format!("an id there is {form}"));
        return None;
    }
    Some(id.to_owned())
}

fn points(t: &Table<'_>, faults: &mut Faults) -> Option<Vec<DecisionPoint>> {
    let item = t.require("decision_points", faults)?;
    let mut found = Vec::new();
    for element in item.list(faults)? {
        let point = one_of(&element, &DecisionPoint::ALL, DecisionPoint::as_str, faults)?;
        if found.contains(&point) {
            faults.error(&element.span, format!("`{}` stands twice", point.as_str()));
            return None;
        }
        found.push(point);
    }
    if found.is_empty() {
        faults.error(&item.span, "an entry is for at least one decision point");
        return None;
    }
    Some(found)
}

fn question(t: &Table<'_>, faults: &mut Faults) -> Option<String> {
    let item = t.require("question", faults)?;
    let text = item.string(faults)?;
    let length = text.chars().count();
    if length > LONGEST_QUESTION {
        faults.error(&item.span, format!("a question of {length} characters; at most {LONGEST_QUESTION}"));
        return None;
    }
    if text.matches('?').count() != 1 || !text.ends_with('?') {
        faults.error(&item.span, "a question has one question mark, at its end");
        return None;
    }
    Some(text.to_owned())
}

fn formula(item: &Item<'_>, faults: &mut Faults) -> Option<Formula> {
    let text = item.string(faults)?;
    Some(Formula::new(text, item.inner(faults)))
}

fn evidence(t: &Table<'_>, faults: &mut Faults) -> Option<Vec<Evidence>> {
    let item = t.require("evidence_expected", faults)?;
    let mut found = Vec::new();
    for element in item.list(faults)? {
        let table = element.table("evidence_expected", faults)?;
        table.check_keys(&["artifact", "fields", "predicate"], faults);
        let artifact = table.require("artifact", faults);
        let text = artifact.and_then(|i| i.string(faults));
        let fields = table.require("fields", faults);
        let list = fields.and_then(|i| fields_of(i, faults));
        let predicate = table.require("predicate", faults).and_then(|i| formula(i, faults));
        found.push(Evidence {
            artifact: text?.to_owned(),
            artifact_span: artifact?.inner(faults),
            fields: list?,
            fields_span: fields?.span.clone(),
            predicate: predicate?,
        });
    }
    if found.is_empty() {
        faults.error(&item.span, "an entry says at least one thing that answers it");
        return None;
    }
    Some(found)
}

fn fields_of(item: &Item<'_>, faults: &mut Faults) -> Option<Vec<Field>> {
    let mut found = Vec::new();
    for field in item.table("fields", faults)?.items {
        let written = field.string(faults)?;
        let fits = !field.key.starts_with(|c: char| c.is_ascii_digit())
            && field.key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !fits || field.key.is_empty() || field.key.len() > 40 {
            faults.error_hint(
                &field.key_span,
                format!("`{}` is no name of a field", field.key),
                "lowercase letters, digits and `_`, at most 40, no digit first",
            );
            return None;
        }
        let Some(of) = FieldType::of(written) else {
            let hint = "`int`, `double`, `bool`, `string`, or `list(…)` of one of these";
            faults.error_hint(&field.span, format!("`{written}` is no type of a field"), hint);
            return None;
        };
        found.push(Field { name: field.key, of });
    }
    if found.is_empty() {
        faults.error(&item.span, "an artefact has at least one field");
        return None;
    }
    Some(found)
}

fn trigger(t: &Table<'_>, faults: &mut Faults) -> Option<Trigger> {
    t.check_keys(
        &["expr", "signals", "min_observations", "cooldown_evals", "max_asks_per_campaign", "suppress_if"],
        faults,
    );
    let expr = t.require("expr", faults).and_then(|i| formula(i, faults));
    let signals = t.require("signals", faults).and_then(|i| i.strings(faults));
    let count = |key: &str, from: u64, otherwise: u64, faults: &mut Faults| {
        optional(t, key, faults, |i, f| i.int(from..=1_000_000, f)).map(|v| v.unwrap_or(otherwise))
    };
    let min_observations = count("min_observations", 0, 0, faults);
    let cooldown_evals = count("cooldown_evals", 0, COOLDOWN, faults);
    let max_asks_per_campaign = count("max_asks_per_campaign", 1, MAX_ASKS, faults);
    let suppress_if = optional(t, "suppress_if", faults, |i, f| {
        let found: Vec<_> = i.list(f)?.iter().map(|e| formula(e, f)).collect();
        found.into_iter().collect::<Option<Vec<_>>>()
    });
    Some(Trigger {
        expr: expr?,
        signals: signals?,
        min_observations: min_observations?,
        cooldown_evals: cooldown_evals?,
        max_asks_per_campaign: max_asks_per_campaign?,
        suppress_if: suppress_if?.unwrap_or_default(),
    })
}

fn budget(t: &Table<'_>, faults: &mut Faults) -> Option<Budget> {
    t.check_keys(&["max_tool_calls", "max_minutes"], faults);
    let max_tool_calls = t.require("max_tool_calls", faults).and_then(|i| i.int(1..=1_000, faults));
    let max_minutes = t.require("max_minutes", faults).and_then(|i| i.int(1..=1_440, faults));
    Some(Budget { max_tool_calls: max_tool_calls?, max_minutes: max_minutes? })
}

fn provenance(t: &Table<'_>, faults: &mut Faults) -> Option<Provenance> {
    t.check_keys(&["kind", "trace_refs", "case_refs", "sources", "author", "added"], faults);
    let kind = name(t, "kind", ProvenanceKind::ALL, ProvenanceKind::as_str, faults);
    let strings = |key: &str, faults: &mut Faults| {
        optional(t, key, faults, |i, f| i.strings(f)).map(Option::unwrap_or_default)
    };
    let trace_refs = strings("trace_refs", faults);
    let case_refs = strings("case_refs", faults);
    let sources = strings("sources", faults);
    let author = optional(t, "author", faults, |i, f| i.string(f).map(str::to_owned));
    let added = optional(t, "added", faults, day);
    Some(Provenance {
        kind: kind?,
        trace_refs: trace_refs?,
        case_refs: case_refs?,
        sources: sources?,
        author: author?,
        added: added?,
    })
}

/// A day as `2026-01-31`.
fn day(item: &Item<'_>, faults: &mut Faults) -> Option<String> {
    let text = item.string(faults)?;
    let fits = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    let part = |range: Range<usize>| text.get(range).and_then(|t| t.parse::<u32>().ok()).unwrap_or(0);
    if !fits || !(1..=12).contains(&part(5..7)) || !(1..=31).contains(&part(8..10)) {
        faults.error_hint(&item.span, format!("`{text}` is no day"), "a day is written as \"2026-01-31\"");
        return None;
    }
    Some(text.to_owned())
}

fn applies_to(t: &Table<'_>, faults: &mut Faults) -> Option<AppliesTo> {
    t.check_keys(&["arch", "operator", "needs_alternative", "requires_signals"], faults);
    let arch = t.require("arch", faults).and_then(|i| i.strings(faults));
    let operator = optional(t, "operator", faults, |i, f| one_of(i, &["any"], |s| s, f));
    let needs_alternative = t.require("needs_alternative", faults).and_then(|i| i.bool(faults));
    let requires_signals = optional(t, "requires_signals", faults, |i, f| i.strings(f));
    operator?;
    Some(AppliesTo {
        arch: arch?,
        needs_alternative: needs_alternative?,
        requires_signals: requires_signals?.unwrap_or_default(),
    })
}

fn leak_check(t: &Table<'_>, faults: &mut Faults) -> Option<LeakCheck> {
    t.check_keys(&["forbidden_terms_pass", "no_solution_pass", "blind_guess_rate", "record"], faults);
    let forbidden = t.require("forbidden_terms_pass", faults).and_then(|i| i.bool(faults));
    let no_solution = t.require("no_solution_pass", faults).and_then(|i| i.bool(faults));
    let rate = optional(t, "blind_guess_rate", faults, |i, f| i.number(0.0..=1.0, f));
    let record = optional(t, "record", faults, |i, f| i.string(f).map(str::to_owned));
    Some(LeakCheck {
        forbidden_terms_pass: forbidden?,
        no_solution_pass: no_solution?,
        blind_guess_rate: rate?,
        record: record?,
    })
}

fn stats(t: &Table<'_>, faults: &mut Faults) -> Option<Stats> {
    t.check_keys(
        &[
            "asked",
            "answered_with_evidence",
            "moved_layer",
            "promoted_within_h",
            "invalid_claims_caught",
            "uplift_posterior",
            "e_value",
            "record",
        ],
        faults,
    );
    let count =
        |key: &str, faults: &mut Faults| optional(t, key, faults, |i, f| i.int(0..=u64::from(u32::MAX), f));
    let asked = count("asked", faults);
    let answered_with_evidence = count("answered_with_evidence", faults);
    let moved_layer = count("moved_layer", faults);
    let promoted_within_h = count("promoted_within_h", faults);
    let invalid_claims_caught = count("invalid_claims_caught", faults);
    let uplift_posterior = optional(t, "uplift_posterior", faults, |i, f| {
        let t = i.table("uplift_posterior", f)?;
        t.check_keys(&["mean", "p05", "p95"], f);
        let mut number = |key: &str| optional(&t, key, f, |i, f| i.number(-1e9..=1e9, f));
        let (mean, p05, p95) = (number("mean"), number("p05"), number("p95"));
        Some(Uplift { mean: mean?, p05: p05?, p95: p95? })
    });
    let e_value = optional(t, "e_value", faults, |i, f| i.number(0.0..=f64::MAX, f));
    let record = optional(t, "record", faults, |i, f| i.string(f).map(str::to_owned));
    Some(Stats {
        asked: asked?,
        answered_with_evidence: answered_with_evidence?,
        moved_layer: moved_layer?,
        promoted_within_h: promoted_within_h?,
        invalid_claims_caught: invalid_claims_caught?,
        uplift_posterior: uplift_posterior?,
        e_value: e_value?,
        record: record?,
    })
}
