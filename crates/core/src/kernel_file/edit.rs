//! Writing a choice into a kernel file without touching anything else in it.

use super::{Chosen, KernelFile, parse_kernel};
use crate::problem::Problem;
use std::fmt::Write as _;
use toml::de::DeTable;

/// Why a choice cannot be written into a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file}: the choice cannot be written there: make `[build]` a table with `flags`, `set` and `routes` each on a line of its own"
)]
pub struct EditError {
    /// The file.
    pub file: String,
}

/// The text of the file with another choice in it. Comments and everything else stay.
///
/// # Errors
/// When the file's `[build]` is written in a way that cannot be edited.
pub fn with_choice(problem: &Problem, kernel: &KernelFile, chosen: &Chosen) -> Result<String, EditError> {
    if kernel.chosen == *chosen {
        return Ok(kernel.source.text().to_owned());
    }
    let failed = || EditError { file: kernel.source.name().to_owned() };
    let text = edited(kernel.source.text(), chosen).ok_or_else(failed)?;
    // What was written must say what was meant, however odd the file is.
    match parse_kernel(problem, kernel.source.name(), &text) {
        Ok(back) if back.chosen == *chosen && back.tunables.len() == kernel.tunables.len() => Ok(text),
        _ => Err(failed()),
    }
}

fn edited(text: &str, chosen: &Chosen) -> Option<String> {
    let values = [
        ("flags", flags(chosen), chosen.flags.is_empty()),
        ("set", set(chosen), chosen.set.is_empty()),
        ("routes", chosen.routes.to_string(), !chosen.routes),
    ];
    let (document, _) = DeTable::parse_recoverable(text);
    let build = document.get_ref().iter().find(|(k, _)| k.get_ref() == "build").map(|(_, v)| v);
    let Some(build) = build else {
        let mut out = text.trim_end().to_owned();
        out.push_str("\n\n[build]\n");
        for (key, value, _) in values.iter().filter(|(.., default)| !default) {
            let _ = writeln!(out, "{key} = {value}");
        }
        return Some(out);
    };
    let table = build.get_ref().as_table()?;
    let mut replacements = Vec::new();
    let mut added = String::new();
    for (key, value, default) in values {
        match table.iter().find(|(k, _)| k.get_ref() == key) {
            Some((_, old)) => replacements.push((old.span(), value)),
            None if default => {}
            None => added.push_str(&format!("{key} = {value}\n")),
        }
    }
    if !added.is_empty() {
        let header = text.match_indices("[build]").map(|(i, _)| i).find(|i| {
            let line = text[..*i].rfind('\n').map_or(0, |n| n + 1);
            text[line..*i].trim().is_empty()
        })?;
        let end = text[header..].find('\n').map_or(text.len(), |n| header + n + 1);
        let lead = if text[..end].ends_with('\n') { "" } else { "\n" };
        replacements.push((end..end, format!("{lead}{added}")));
    }
    replacements.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut out = text.to_owned();
    for (span, value) in replacements {
        out.get(span.clone())?;
        out.replace_range(span, &value);
    }
    Some(out)
}

fn flags(chosen: &Chosen) -> String {
    let all: Vec<String> = chosen.flags.iter().map(|f| format!("\"{f}\"")).collect();
    format!("[{}]", all.join(", "))
}

fn set(chosen: &Chosen) -> String {
    let quoted = |c: &super::Choice| match c {
        super::Choice::Int(i) => i.to_string(),
        super::Choice::Word(w) => format!("\"{w}\""),
    };
    let all: Vec<String> = chosen.set.iter().map(|(n, v)| format!("{n} = {}", quoted(v))).collect();
    if all.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", all.join(", ")) }
}
