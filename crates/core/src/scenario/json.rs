//! A JSON object on one line, with the place of every key and value.

use crate::value::Value;
use std::ops::Range;

/// Longest list in a scenario line.
const LONGEST_LIST: usize = crate::expression::LONGEST_LIST;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(String),
    List(Vec<Self>),
    Object,
}

impl Node {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Object => "an object",
        }
    }

    /// The value of a field, if a field can hold it.
    pub(super) fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Float(x) => Value::Float(*x),
            Self::String(s) => Value::String(s.clone()),
            Self::List(items) if items.len() <= LONGEST_LIST => {
                Value::List(items.iter().map(Self::to_value).collect::<Option<_>>()?)
            }
            Self::List(_) | Self::Object => return None,
        })
    }
}

/// One key of an object; the ranges are bytes of the line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) key_at: Range<usize>,
    pub(super) value: Node,
    pub(super) at: Range<usize>,
}

/// What is wrong with a line, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

/// The members of the object that `line` is, duplicates included.
pub(super) fn object(line: &str) -> Result<Vec<Member>, Fault> {
    let whole: serde_json::Value = serde_json::from_str(line).map_err(|e| {
        let at = e.column().saturating_sub(1).min(line.len());
        let text = e.to_string();
        let message = text.split(" at line ").next().unwrap_or_default();
        Fault { at: at..at + 1, message: format!("not JSON: {message}") }
    })?;
    if !whole.is_object() {
        return Err(Fault { at: 0..line.len(), message: "a scenario is a JSON object".to_owned() });
    }
    // The line is valid JSON, so a scan that knows strings and brackets finds every key and value.
    let bytes = line.as_bytes();
    let mut members = Vec::new();
    let mut at = skip_space(bytes, 0) + 1;
    loop {
        at = skip_space(bytes, at);
        if bytes.get(at) != Some(&b'"') {
            return Ok(members);
        }
        let key_at = at..value_end(bytes, at);
        at = skip_space(bytes, key_at.end) + 1;
        at = skip_space(bytes, at);
        let value_at = at..value_end(bytes, at);
        members.push(Member {
            key: parse(line, &key_at).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default(),
            value: parse(line, &value_at).map_or(Node::Object, node),
            key_at,
            at: value_at.clone(),
        });
        at = skip_space(bytes, value_at.end);
        if bytes.get(at) != Some(&b',') {
            return Ok(members);
        }
        at += 1;
    }
}

fn parse(line: &str, at: &Range<usize>) -> Option<serde_json::Value> {
    serde_json::from_str(line.get(at.clone())?).ok()
}

fn node(value: serde_json::Value) -> Node {
    match value {
        serde_json::Value::Null => Node::Null,
        serde_json::Value::Bool(b) => Node::Bool(b),
        serde_json::Value::Number(n) => {
            n.as_i64().map_or_else(|| Node::Float(n.as_f64().unwrap_or(f64::NAN)), Node::Int)
        }
        serde_json::Value::String(s) => Node::String(s),
        serde_json::Value::Array(items) => Node::List(items.into_iter().map(node).collect()),
        serde_json::Value::Object(_) => Node::Object,
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// End of the value that starts at `at`.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    let mut quoted = false;
    let mut escaped = false;
    while let Some(&b) = bytes.get(at) {
        if quoted {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    quoted = false;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        } else {
            match b {
                b'"' => quoted = true,
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                b',' | b']' | b'}' if depth == 0 => return at,
                _ if b.is_ascii_whitespace() && depth == 0 => return at,
                _ => {}
            }
        }
        at += 1;
    }
    bytes.len()
}

/// A string as JSON.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// A value as JSON; a list on one line.
pub(super) fn write(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        // `{:?}` keeps the fraction of a whole number and round-trips.
        Value::Float(x) if x.is_finite() => format!("{x:?}"),
        Value::Float(_) => "null".to_owned(),
        Value::String(s) => quote(s),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(write).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_values() {
        let line = r#" {"a" : 1 , "b\"":"x, }","l":[1,2.5,"]"],"o":{"x":[]},"n":null,"t":true,"a":-3}"#;
        let members = object(line).unwrap();
        let shown: Vec<(&str, &str, &Node)> =
            members.iter().map(|m| (&line[m.key_at.clone()], &line[m.at.clone()], &m.value)).collect();
        assert_eq!(shown[0], ("\"a\"", "1", &Node::Int(1)));
        assert_eq!(shown[1], (r#""b\"""#, "\"x, }\"", &Node::String("x, }".into())));
        assert_eq!(shown[2].1, "[1,2.5,\"]\"]");
        assert_eq!(shown[3], ("\"o\"", "{\"x\":[]}", &Node::Object));
        assert_eq!(shown[4].2, &Node::Null);
        assert_eq!(shown[5].2, &Node::Bool(true));
        assert_eq!(shown[6], ("\"a\"", "-3", &Node::Int(-3)));
        assert_eq!(members[1].key, "b\"");
        assert_eq!(object("{}").unwrap(), []);
    }

    #[test]
    fn faults() {
        for (line, at, message) in [
            ("{\"a\": }", 6..7, "not JSON: expected value"),
            ("[1]", 0..3, "a scenario is a JSON object"),
            ("{\"a\": 1} x", 9..10, "not JSON: trailing characters"),
        ] {
            assert_eq!(object(line).unwrap_err(), Fault { at, message: message.into() }, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "[{}\\[\\]\",:a1\\\\ ntü.e-]{0,40}") {
            if let Ok(members) = object(&line) {
                for m in members {
                    assert!(line.get(m.key_at).is_some() && line.get(m.at).is_some());
                }
            }
        }
    }
}
