//! What is wrong with a problem or scenario file, and where.
//!
//! A [`Diagnostic`] carries its whole [`Source`], so it can be rendered by anything: `Display` gives a plain
//! form, and a front end may draw the same spans more richly.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text that diagnostics point into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    /// Byte offset of the start of every line.
    lines: Vec<usize>,
}

impl Source {
    /// A source with the name to show (a path) and its whole text.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Arc::new(Self { name: name.into(), text, lines })
    }
    /// The name to show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Line and column of a byte offset, both from 1; the column counts characters.
    #[must_use]
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let offset = floor_boundary(&self.text, offset);
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        (line.max(1), self.text[start..offset].chars().count() + 1)
    }
    /// Byte range of the line that holds `offset`, without its line break.
    fn line_at(&self, offset: usize) -> Range<usize> {
        let offset = floor_boundary(&self.text, offset);
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let end = self.lines.get(line).map_or(self.text.len(), |next| next - 1);
        let line = &self.text[start..end];
        start..start + line.trim_end_matches('\r').len()
    }
}

/// The largest character boundary of `text` that is not past `offset`.
fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// One thing that is wrong, with the place and, where there is one, the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The text that `span` points into.
    pub source: Arc<Source>,
    /// What is wrong, a lowercase fragment.
    pub message: String,
    /// Short text beside the carets.
    pub label: Option<String>,
    /// Byte range in the source's text.
    pub span: Range<usize>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Line of the start of `span`, from 1.
    pub line: usize,
    /// Column of the start of `span` in characters, from 1.
    pub column: usize,
}

impl Diagnostic {
    /// A diagnostic without label and hint.
    #[must_use]
    pub fn new(source: &Arc<Source>, span: Range<usize>, message: impl Into<String>) -> Self {
        let (line, column) = source.position(span.start);
        Self {
            source: Arc::clone(source),
            message: message.into(),
            label: None,
            span,
            hint: None,
            line,
            column,
        }
    }
    /// Sets the text beside the carets.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
    /// Sets the hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Sets the hint if there is one.
    #[must_use]
    pub fn with_hint_opt(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
    /// Name of the file, as it was given.
    #[must_use]
    pub fn file(&self) -> &str {
        self.source.name()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file(), self.line, self.column, self.message)?;
        let line = self.source.line_at(self.span.start);
        let text = &self.source.text()[line.clone()];
        if !text.trim().is_empty() {
            // Tabs would put the carets elsewhere than under the text.
            let start = floor_boundary(self.source.text(), self.span.start).clamp(line.start, line.end);
            let end = floor_boundary(self.source.text(), self.span.end).clamp(start, line.end);
            let before = self.source.text()[line.start..start].chars().count();
            let width = self.source.text()[start..end].chars().count().max(1);
            let (shown, before, width) = window(text, before, width);
            write!(f, "\n  {}\n  {}{}", shown.replace('\t', " "), " ".repeat(before), "^".repeat(width))?;
            if let Some(label) = &self.label {
                write!(f, " {label}")?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// The part of a long line that is worth showing, and where the carets go in it. All units are characters.
fn window(line: &str, before: usize, width: usize) -> (String, usize, usize) {
    const SHOWN: usize = 100;
    const LEAD: usize = 30;
    let length = line.chars().count();
    if length <= SHOWN {
        return (line.to_owned(), before, width);
    }
    let from = before.saturating_sub(LEAD);
    let taken: String = line.chars().skip(from).take(SHOWN).collect();
    let until = from + taken.chars().count();
    let head = if from > 0 { "…" } else { "" };
    let tail = if until < length { "…" } else { "" };
    let lead = head.chars().count();
    (format!("{head}{taken}{tail}"), before - from + lead, width.min(until.saturating_sub(before)).max(1))
}

/// Everything that is wrong with one file, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text that was read.
    pub source: Arc<Source>,
    /// What is wrong; never empty.
    pub items: Vec<Diagnostic>,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.items.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Collects diagnostics for one source.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) source: Arc<Source>,
    items: Vec<Diagnostic>,
}

/// More are not reported: the first ones explain the rest.
const MOST: usize = 50;

impl Collector {
    pub(crate) fn new(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), items: Vec::new() }
    }
    pub(crate) fn push(&mut self, item: Diagnostic) {
        if !self.is_full() && !self.items.contains(&item) {
            self.items.push(item);
        }
    }
    pub(crate) fn error(&mut self, span: &Range<usize>, message: impl Into<String>) {
        self.push(Diagnostic::new(&self.source, span.clone(), message));
    }
    pub(crate) fn error_hint(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Diagnostic::new(&self.source, span.clone(), message).with_hint(hint));
    }
    /// Whether more would not be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= MOST
    }
    pub(crate) fn count(&self) -> usize {
        self.items.len()
    }
    /// The collected diagnostics sorted by place, or `value` if there is none.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, Diagnostics> {
        match value {
            Some(value) if self.items.is_empty() => Ok(value),
            _ => {
                if self.items.is_empty() {
                    self.error(&(0..0), "the file could not be read");
                }
                self.items.sort_by_key(|d| (d.span.start, d.span.end));
                Err(Diagnostics { source: self.source, items: self.items })
            }
        }
    }
}

/// "did you mean …" for a misspelt name, or the list of what there is.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    let lower = name.to_lowercase();
    let best = known
        .iter()
        .map(|k| (edit_distance(&lower, &k.to_lowercase()), *k))
        .filter(|(d, k)| {
            let shorter = name.chars().count().min(k.chars().count());
            *d <= 1 + shorter / 4 && *d < shorter
        })
        .min_by_key(|(d, _)| *d);
    match best {
        Some((_, k)) => Some(format!("did you mean `{k}`?")),
        None if known.is_empty() => None,
        None if known.len() <= 16 => {
            let list: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
            Some(format!("known here: {}", list.join(", ")))
        }
        None => None,
    }
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
fn edit_distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    let width = b.len() + 1;
    let mut d = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let cost = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (d[(i - 1) * width + j] + 1)
                    .min(d[i * width + j - 1] + 1)
                    .min(d[(i - 1) * width + j - 1] + cost);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(d[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    d[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [("", "", 0), ("shap", "shape", 1), ("hsape", "shape", 1), ("abc", "xyz", 3)] {
            assert_eq!(edit_distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn suggestions() {
        assert_eq!(suggestion("shap", ["shape", "stride"]).unwrap(), "did you mean `shape`?");
        assert_eq!(suggestion("zzz", ["shape", "stride"]).unwrap(), "known here: `shape`, `stride`");
        assert_eq!(suggestion("zzz", []), None);
    }

    #[test]
    fn carets_stand_under_the_span_even_after_wide_and_multibyte_text() {
        let source = Source::new("f", "a = 1\nü\tb = 'x' # ß\n");
        let start = source.text().find("'x'").unwrap();
        let d = Diagnostic::new(&source, start..start + 3, "bad").with_label("here").with_hint("better");
        assert_eq!(d.to_string(), "f:2:7: bad\n  ü b = 'x' # ß\n        ^^^ here\nhint: better");
        let inside = Diagnostic::new(&source, 7..7, "x");
        assert_eq!((inside.line, inside.column), (2, 1), "a span inside a character is moved to its start");
        let past = Diagnostic::new(&source, 999..1000, "x");
        assert_eq!(past.to_string(), "f:3:1: x");
    }

    #[test]
    fn a_long_line_is_cut_around_the_span() {
        let text = format!("{}BAD{}", "a".repeat(500), "b".repeat(500));
        let source = Source::new("f", text);
        let shown = Diagnostic::new(&source, 500..503, "x").to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].starts_with("  …aaa") && lines[1].ends_with("bbb…"), "{shown}");
        let at = lines[2].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[1].chars().skip(at).take(3).collect::<String>(), "BAD");
    }
}
