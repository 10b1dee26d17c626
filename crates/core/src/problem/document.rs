//! Reads a TOML tree with the place of everything, and says what is wrong in terms of the file.

use crate::diagnostic::{Collector, Diagnostic, Diagnostics, Source, suggestion};
use crate::expression::{Expression, Fault};
use crate::value::Value;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

/// A value with the key it stands under.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) span: Range<usize>,
    value: &'a DeValue<'a>,
}

/// A table whose keys have been checked against a list.
#[derive(Debug, Clone)]
pub(crate) struct Table<'a> {
    /// How the table is called in messages: `[cost]`, `[[tensor]]`.
    pub(crate) what: String,
    pub(crate) span: Range<usize>,
    pub(crate) items: Vec<Item<'a>>,
}

/// Keys that stand for features the format leaves out on purpose, what to say, and the way out.
const LEFT_OUT: [(&[&str], &str, &str); 2] = [
    (
        &["devices", "device", "gpus", "ranks", "world_size"],
        "several devices are not supported",
        "one call runs on one device",
    ),
    (
        &["rng", "rng_state", "random", "random_state", "random_seed", "hidden_state"],
        "hidden random state is not supported",
        "randomness enters a call only through an attribute",
    ),
];

/// Reads a TOML file: `what` it is called in messages, and how long it may be in bytes.
///
/// # Errors
/// Everything that is wrong with it, in the order of the text; if it is not TOML, only that.
pub(crate) fn read<T>(
    file: &str,
    text: &str,
    what: &str,
    longest: usize,
    read: impl FnOnce(&Table<'_>, &mut Collector) -> Option<T>,
) -> Result<T, Diagnostics> {
    let source = Source::new(file, text);
    let mut errors = Collector::new(&source);
    if text.len() > longest {
        errors.error(&(0..0), format!("a {what} of {} bytes; at most {longest}", text.len()));
        return errors.finish(None);
    }
    let (document, syntax) = DeTable::parse_recoverable(source.text());
    for error in &syntax {
        errors.error(&error.span().unwrap_or(0..0), format!("not TOML: {}", error.message()));
    }
    if !syntax.is_empty() {
        return errors.finish(None);
    }
    let root = Table::open(document.get_ref(), 0..0, &format!("the {what}"));
    let value = read(&root, &mut errors);
    errors.finish(value)
}

impl<'a> Table<'a> {
    /// All keys of a table in file order.
    pub(crate) fn open(table: &'a DeTable<'a>, span: Range<usize>, what: &str) -> Self {
        let mut items: Vec<Item<'a>> = table.iter().map(|(k, v)| item(k, v)).collect();
        items.sort_by_key(|i| i.key_span.start);
        Self { what: what.to_owned(), span, items }
    }

    /// Reports keys that are not in `known`.
    pub(crate) fn check_keys(&self, known: &[&str], errors: &mut Collector) {
        for item in self.items.iter().filter(|i| !known.contains(&i.key.as_str())) {
            if errors.is_full() {
                return;
            }
            let left_out = LEFT_OUT.iter().find(|(keys, ..)| keys.contains(&item.key.as_str()));
            let diagnostic = match left_out {
                Some((_, message, hint)) => Diagnostic::new(
                    &errors.source,
                    item.key_span.clone(),
                    format!("`{}`: {message}", item.key),
                )
                .with_hint(*hint),
                None => Diagnostic::new(
                    &errors.source,
                    item.key_span.clone(),
                    format!("unknown key `{}` in {}", item.key, self.what),
                )
                .with_hint_opt(suggestion(&item.key, known.iter().copied())),
            };
            errors.push(diagnostic);
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Item<'a>> {
        self.items.iter().find(|i| i.key == key)
    }

    pub(crate) fn require(&self, key: &str, errors: &mut Collector) -> Option<&Item<'a>> {
        let found = self.get(key);
        if found.is_none() {
            errors.error(&self.span, format!("{} has no `{key}`", self.what));
        }
        found
    }

    /// The required expression under `key`.
    pub(crate) fn expression(&self, key: &str, errors: &mut Collector) -> Option<Expression> {
        self.require(key, errors)?.expression(errors)
    }

    /// The expression under `key`: `Some(None)` if the key is absent, `None` if it is wrong.
    pub(crate) fn optional_expression(
        &self,
        key: &str,
        errors: &mut Collector,
    ) -> Option<Option<Expression>> {
        match self.get(key) {
            None => Some(None),
            Some(item) => item.expression(errors).map(Some),
        }
    }

    /// The required string under `key`.
    pub(crate) fn string(&self, key: &str, errors: &mut Collector) -> Option<&'a str> {
        self.require(key, errors)?.string(errors)
    }
}

fn item<'a>(key: &Spanned<DeString<'a>>, value: &'a Spanned<DeValue<'a>>) -> Item<'a> {
    Item { key: key.get_ref().to_string(), key_span: key.span(), span: value.span(), value: value.get_ref() }
}

fn integer(value: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(value.as_str(), value.radix()).ok()
}

impl<'a> Item<'a> {
    fn wrong_type(&self, wanted: &str, errors: &mut Collector) {
        let found = match self.value.type_str() {
            t @ ("integer" | "array") => format!("an {t}"),
            t => format!("a {t}"),
        };
        errors.error(&self.span, format!("`{}` wants {wanted}, not {found}", self.key));
    }

    pub(crate) fn string(&self, errors: &mut Collector) -> Option<&'a str> {
        let found = self.value.as_str();
        if found.is_none() {
            self.wrong_type("a string", errors);
        }
        found
    }

    pub(crate) fn bool(&self, errors: &mut Collector) -> Option<bool> {
        let found = self.value.as_bool();
        if found.is_none() {
            self.wrong_type("true or false", errors);
        }
        found
    }

    /// A finite number.
    pub(crate) fn number(&self, errors: &mut Collector) -> Option<f64> {
        match self.scalar() {
            Some(Value::Int(i)) => return Some(i as f64),
            Some(Value::Float(x)) if x.is_finite() => return Some(x),
            Some(Value::Float(_)) => errors.error(&self.span, format!("`{}` must be finite", self.key)),
            _ => self.wrong_type("a number", errors),
        }
        None
    }

    /// An integer of a range.
    pub(crate) fn int(&self, range: std::ops::RangeInclusive<i64>, errors: &mut Collector) -> Option<i64> {
        let Some(Value::Int(i)) = self.scalar() else {
            self.wrong_type("an integer", errors);
            return None;
        };
        if !range.contains(&i) {
            let message = if *range.end() == i64::MAX {
                format!("`{}` must be at least {}", self.key, range.start())
            } else {
                format!("`{}` must be from {} to {}", self.key, range.start(), range.end())
            };
            errors.error(&self.span, message);
            return None;
        }
        Some(i)
    }

    /// The elements of a list, each as an item under the same key.
    pub(crate) fn list(&self, errors: &mut Collector) -> Option<Vec<Self>> {
        let Some(array) = self.value.as_array() else {
            self.wrong_type("a list", errors);
            return None;
        };
        Some(
            array
                .iter()
                .map(|v| Self {
                    key: self.key.clone(),
                    key_span: self.key_span.clone(),
                    span: v.span(),
                    value: v.get_ref(),
                })
                .collect(),
        )
    }

    pub(crate) fn strings(&self, errors: &mut Collector) -> Option<Vec<String>> {
        let items = self.list(errors)?;
        let found: Vec<_> = items.iter().map(|i| i.string(errors).map(str::to_owned)).collect();
        found.into_iter().collect()
    }

    pub(crate) fn table(&self, what: &str, errors: &mut Collector) -> Option<Table<'a>> {
        let Some(table) = self.value.as_table() else {
            self.wrong_type("a table", errors);
            return None;
        };
        Some(Table::open(table, self.span.clone(), what))
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(crate) fn is_string(&self) -> bool {
        self.value.is_str()
    }

    /// A number, bool or string.
    pub(crate) fn scalar(&self) -> Option<Value> {
        match self.value {
            DeValue::String(s) => Some(Value::String(s.to_string())),
            DeValue::Integer(i) => integer(i).map(Value::Int),
            DeValue::Float(x) => x.as_str().parse().ok().map(Value::Float),
            DeValue::Boolean(b) => Some(Value::Bool(*b)),
            _ => None,
        }
    }

    /// A scalar or a list of scalars.
    pub(crate) fn value(&self, errors: &mut Collector) -> Option<Value> {
        let found = match self.value.as_array() {
            Some(array) => array
                .iter()
                .map(|v| Self { value: v.get_ref(), ..self.clone() }.scalar())
                .collect::<Option<Vec<_>>>()
                .map(Value::List),
            None => self.scalar(),
        };
        if found.is_none() {
            self.wrong_type("a number, a string, true, false or a list of these", errors);
        }
        found
    }

    /// A string that is an expression, or a number, bool or list of numbers in place of one.
    pub(crate) fn expression(&self, errors: &mut Collector) -> Option<Expression> {
        let Some(text) = self.value.as_str() else {
            return self.constant(errors);
        };
        match Expression::parse(text, self.inner(errors)) {
            Ok(expression) => Some(expression),
            Err(fault) => {
                self.report(&fault, text, errors);
                None
            }
        }
    }

    fn constant(&self, errors: &mut Collector) -> Option<Expression> {
        let before = errors.count();
        let value = match self.value {
            DeValue::Array(_) => {
                let items = self.list(errors)?;
                let numbers: Vec<_> = items.iter().map(|i| i.number(errors).and(i.scalar())).collect();
                numbers.into_iter().collect::<Option<Vec<_>>>().map(Value::List)
            }
            DeValue::Float(_) => self.number(errors).map(Value::Float),
            DeValue::Integer(_) | DeValue::Boolean(_) => self.scalar(),
            _ => None,
        };
        if value.is_none() && errors.count() == before {
            self.wrong_type("an expression (a string) or a number", errors);
        }
        value.map(|v| Expression::constant(v, self.span.clone()))
    }

    fn report(&self, fault: &Fault, text: &str, errors: &mut Collector) {
        let inner = self.inner(errors);
        let span = if errors.source.text().get(inner.clone()) == Some(text) {
            inner.start + fault.at.start..inner.start + fault.at.end
        } else {
            self.span.clone()
        };
        let diagnostic = Diagnostic::new(&errors.source, span, fault.message.clone());
        errors.push(diagnostic.with_hint_opt(fault.hint.clone()));
    }

    /// Range of a string's content without its quotes; the whole value if it is no string.
    pub(crate) fn inner(&self, errors: &Collector) -> Range<usize> {
        let raw = errors.source.text().get(self.span.clone()).unwrap_or_default();
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
        start..self.span.end - quotes
    }
}
