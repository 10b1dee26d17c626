//! What is wrong with a bank beyond its form.
//!
//! The rules have the numbers of the bank's design. Two of them need more than the text: 4 (readers who guess the
//! operator) and 7 (answering in the budget); they are measured, and their measurements are held to rule 0 here.

mod expressions;
mod records;
mod text;

pub(crate) use expressions::expressions;

use crate::bank::Bank;
use crate::entry::Entry;
use crate::names::ProvenanceKind;
use kernelseek_core::diagnostic::{Diagnostic, Diagnostics};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path};

/// Public cases are numbered from 1 to this.
const CASES: u32 = 305;
/// Folder of measurements, under the root of the repository.
const RESULTS: &str = "results";

/// A rule that an entry breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// Number of the rule; 0 for numbers without a record.
    pub rule: u8,
    /// Id of the entry.
    pub entry: String,
    /// What is wrong, and where.
    pub diagnostic: Diagnostic,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule {}, {})", self.diagnostic, self.rule, self.entry)
    }
}

impl Lint {
    pub(crate) fn new(rule: u8, entry: &Entry, span: Range<usize>, message: impl Into<String>) -> Self {
        let diagnostic = Diagnostic::new(&entry.place.source, span, message);
        Self { rule, entry: entry.id.clone(), diagnostic }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.diagnostic = self.diagnostic.with_hint(hint);
        self
    }
}

/// Everything that is wrong with a bank. `root` is the folder that holds `results/`; without it no record and no trace
/// can be confirmed.
///
/// # Errors
/// What is wrong with the bank's list of forbidden terms, without which it cannot be held against anything.
pub fn lint(bank: &Bank, root: Option<&Path>) -> Result<Vec<Lint>, Diagnostics> {
    let forbidden = bank.forbidden()?;
    let mut found = Vec::new();
    for entry in bank.entries() {
        text::sentence(entry, &mut found);
        text::terms(entry, &forbidden, &mut found);
        provenance(entry, root, &mut found);
        measured(entry, root, &mut found);
    }
    found.extend(expressions(bank));
    records::triggers(bank, &mut found);
    duplicates(bank, &mut found);
    found.sort_by(|a, b| {
        let key = |l: &Lint| (l.diagnostic.file().to_owned(), l.diagnostic.span.start, l.rule);
        key(a).cmp(&key(b))
    });
    Ok(found)
}

/// Rule 8: entries that would be asked in the same moments and move the search to the same place.
fn duplicates(bank: &Bank, found: &mut Vec<Lint>) {
    let same = |a: &Entry, b: &Entry| {
        let signals = |e: &Entry| e.trigger.signals.iter().cloned().collect::<BTreeSet<_>>();
        let points = |e: &Entry| e.decision_points.iter().copied().collect::<BTreeSet<_>>();
        a.layer_to == b.layer_to && points(a) == points(b) && signals(a) == signals(b)
    };
    for (i, entry) in bank.entries().iter().enumerate() {
        if let Some(earlier) = bank.entries().iter().take(i).find(|e| same(e, entry)) {
            let message = format!("the same signals, layer and decision points as {}", earlier.id);
            let lint = Lint::new(8, entry, entry.place.entry.clone(), message);
            found.push(lint.hint("one of the two is enough, or they differ in when they should be asked"));
        }
    }
}

/// Rule 9: what stands behind an entry can be looked up.
fn provenance(entry: &Entry, root: Option<&Path>, found: &mut Vec<Lint>) {
    let place = || entry.place.references.clone();
    let p = &entry.provenance;
    let missing = match p.kind {
        ProvenanceKind::TraceConfirmed => p.trace_refs.is_empty().then_some("trace_refs"),
        ProvenanceKind::PublicCase => p.case_refs.is_empty().then_some("case_refs"),
        ProvenanceKind::Untested => None,
    };
    if let Some(key) = missing {
        found.push(Lint::new(9, entry, place(), format!("`{}` without `{key}`", p.kind)));
    }
    for case in &p.case_refs {
        let number =
            case.strip_prefix("QC-").filter(|n| n.len() == 3 && n.bytes().all(|b| b.is_ascii_digit()));
        if !number.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| (1..=CASES).contains(&n)) {
            let message = format!("`{case}` is no public case");
            found.push(Lint::new(9, entry, place(), message).hint(format!("QC-001 to QC-{CASES}")));
        }
    }
    for trace in &p.trace_refs {
        let line = trace.rsplit_once(':').and_then(|(file, n)| Some((file, n.parse::<usize>().ok()?)));
        let there = line.is_some_and(|(file, n)| {
            n > 0
                && recorded(file, root)
                    .and_then(|p| std::fs::read_to_string(p).ok())
                    .is_some_and(|t| t.lines().count() >= n)
        });
        if !there {
            let message = format!("`{trace}` is no line of a trace");
            found.push(Lint::new(9, entry, place(), message).hint("a trace is named as results/FILE:LINE"));
        }
    }
}

/// A number that says how good an entry is comes with the file that measured it.
fn measured(entry: &Entry, root: Option<&Path>, found: &mut Vec<Lint>) {
    let leak = entry
        .leak_check
        .as_ref()
        .map(|l| ("leak_check", l.record.as_deref(), entry.place.leak_check.clone()));
    let stats = entry.stats.as_ref().map(|s| ("stats", s.record.as_deref(), entry.place.stats.clone()));
    for (what, record, span) in leak.into_iter().chain(stats) {
        let message = match record {
            None => format!("`{what}` without a record"),
            Some(file) if recorded(file, root).is_none() => {
                format!("the record `{file}` of `{what}` does not exist")
            }
            Some(_) => continue,
        };
        let hint = "record = \"results/…\" names the file that holds the measurement; leave it out until there is one";
        found.push(Lint::new(0, entry, span, message).hint(hint));
    }
}

/// The path of a file under `results/`, if it exists.
fn recorded(file: &str, root: Option<&Path>) -> Option<std::path::PathBuf> {
    let relative = Path::new(file);
    let plain = relative.components().all(|c| matches!(c, Component::Normal(_)));
    if !plain || !relative.starts_with(RESULTS) {
        return None;
    }
    let path = root?.join(relative);
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests;
