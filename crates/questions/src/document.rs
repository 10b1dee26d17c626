//! Reads a TOML tree with the place of everything, and says what is wrong in terms of the file.

use kernelseek_core::diagnostic::{Diagnostic, Diagnostics, Source};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Longest file in bytes.
pub(crate) const LONGEST_FILE: usize = 1 << 20;
/// More are not reported: the first ones explain the rest.
const MOST: usize = 50;

/// What is wrong with one file.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) source: Arc<Source>,
    items: Vec<Diagnostic>,
}

impl Faults {
    pub(crate) fn new(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), items: Vec::new() }
    }

    pub(crate) fn push(&mut self, item: Diagnostic) {
        if self.items.len() < MOST {
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

    /// `value` if nothing is wrong.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Diagnostics> {
        if self.items.is_empty() {
            return Ok(value);
        }
        self.items.sort_by_key(|d| (d.span.start, d.span.end));
        Err(Diagnostics { source: self.source, items: self.items })
    }
}

/// Reads the text of a file and hands its root table to `read`.
pub(crate) fn parse<T>(
    source: &Arc<Source>,
    empty: T,
    read: impl FnOnce(&Table<'_>, &mut Faults) -> T,
) -> Result<T, Diagnostics> {
    let mut faults = Faults::new(source);
    let length = source.text().len();
    if length > LONGEST_FILE {
        faults.error(&(0..0), format!("a file of {length} bytes; at most {LONGEST_FILE}"));
        return faults.finish(empty);
    }
    let (document, syntax) = DeTable::parse_recoverable(source.text());
    for error in &syntax {
        faults.error(&error.span().unwrap_or(0..0), format!("not TOML: {}", error.message()));
    }
    if !syntax.is_empty() {
        return faults.finish(empty);
    }
    let root = Table::open(document.get_ref(), 0..0, "the file");
    let value = read(&root, &mut faults);
    faults.finish(value)
}

/// A table, with its keys in the order of the file.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    what: String,
    pub(crate) span: Range<usize>,
    pub(crate) items: Vec<Item<'a>>,
}

impl<'a> Table<'a> {
    fn open(table: &'a DeTable<'a>, span: Range<usize>, what: &str) -> Self {
        let mut items: Vec<Item<'a>> = table.iter().map(|(k, v)| item(k, v)).collect();
        items.sort_by_key(|i| i.key_span.start);
        Self { what: what.to_owned(), span, items }
    }

    /// Reports keys that are not in `known`.
    pub(crate) fn check_keys(&self, known: &[&str], faults: &mut Faults) {
        for item in self.items.iter().filter(|i| !known.contains(&i.key.as_str())) {
            let list: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
            faults.error_hint(
                &item.key_span,
                format!("unknown key `{}` in {}", item.key, self.what),
                format!("known here: {}", list.join(", ")),
            );
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Item<'a>> {
        self.items.iter().find(|i| i.key == key)
    }

    pub(crate) fn require(&self, key: &str, faults: &mut Faults) -> Option<&Item<'a>> {
        let found = self.get(key);
        if found.is_none() {
            faults.error(&self.span, format!("{} has no `{key}`", self.what));
        }
        found
    }
}

/// A value with the key it stands under.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) span: Range<usize>,
    value: &'a DeValue<'a>,
}

fn item<'a>(key: &Spanned<DeString<'a>>, value: &'a Spanned<DeValue<'a>>) -> Item<'a> {
    Item { key: key.get_ref().to_string(), key_span: key.span(), span: value.span(), value: value.get_ref() }
}

impl<'a> Item<'a> {
    fn wrong_type(&self, wanted: &str, faults: &mut Faults) {
        let article = if matches!(self.value.type_str(), "integer" | "array") { "an" } else { "a" };
        let message = format!("`{}` wants {wanted}, not {article} {}", self.key, self.value.type_str());
        faults.error(&self.span, message);
    }

    /// A string that is not blank.
    pub(crate) fn string(&self, faults: &mut Faults) -> Option<&'a str> {
        match self.value.as_str() {
            Some(text) if text.trim().is_empty() => {
                faults.error(&self.span, format!("`{}` is empty", self.key));
                None
            }
            Some(text) => Some(text),
            None => {
                self.wrong_type("a string", faults);
                None
            }
        }
    }

    pub(crate) fn bool(&self, faults: &mut Faults) -> Option<bool> {
        let found = self.value.as_bool();
        if found.is_none() {
            self.wrong_type("true or false", faults);
        }
        found
    }

    /// An integer of a range.
    pub(crate) fn int(&self, range: RangeInclusive<u64>, faults: &mut Faults) -> Option<u64> {
        let DeValue::Integer(i) = self.value else {
            self.wrong_type("an integer", faults);
            return None;
        };
        let found = i64::from_str_radix(i.as_str(), i.radix()).ok().and_then(|i| u64::try_from(i).ok());
        let found = found.filter(|i| range.contains(i));
        if found.is_none() {
            let message = format!("`{}` must be from {} to {}", self.key, range.start(), range.end());
            faults.error(&self.span, message);
        }
        found
    }

    /// A finite number of a range.
    pub(crate) fn number(&self, range: RangeInclusive<f64>, faults: &mut Faults) -> Option<f64> {
        let found: Option<f64> = match self.value {
            DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as f64),
            DeValue::Float(x) => x.as_str().parse().ok(),
            _ => {
                self.wrong_type("a number", faults);
                return None;
            }
        };
        let found = found.filter(|x| x.is_finite() && range.contains(x));
        if found.is_none() {
            let message = format!("`{}` must be from {} to {}", self.key, range.start(), range.end());
            faults.error(&self.span, message);
        }
        found
    }

    /// The elements of a list, each as an item under the same key.
    pub(crate) fn list(&self, faults: &mut Faults) -> Option<Vec<Self>> {
        let Some(array) = self.value.as_array() else {
            self.wrong_type("a list", faults);
            return None;
        };
        let element =
            |v: &'a Spanned<DeValue<'a>>| Self { span: v.span(), value: v.get_ref(), ..self.clone() };
        Some(array.iter().map(element).collect())
    }

    pub(crate) fn strings(&self, faults: &mut Faults) -> Option<Vec<String>> {
        let items = self.list(faults)?;
        let found: Vec<_> = items.iter().map(|i| i.string(faults).map(str::to_owned)).collect();
        found.into_iter().collect()
    }

    pub(crate) fn table(&self, what: &str, faults: &mut Faults) -> Option<Table<'a>> {
        let Some(table) = self.value.as_table() else {
            self.wrong_type("a table", faults);
            return None;
        };
        Some(Table::open(table, self.span.clone(), what))
    }

    /// Range of a string's content without its quotes; the whole value if it is no string.
    pub(crate) fn inner(&self, faults: &Faults) -> Range<usize> {
        let raw = faults.source.text().get(self.span.clone()).unwrap_or_default();
        let quotes = match raw {
            r if r.len() >= 6 && (r.starts_with("\"\"\"") || r.starts_with("'''")) => 3,
            r if r.len() >= 2 && (r.starts_with('"') || r.starts_with('\'')) => 1,
            _ => 0,
        };
        let mut start = self.span.start + quotes;
        if quotes == 3 {
            // A line break right after the opening quotes is not part of the string.
            let after = &raw[3..];
            start += if after.starts_with("\r\n") { 2 } else { usize::from(after.starts_with('\n')) };
        }
        start..(self.span.end - quotes).max(start)
    }
}
