//! Values of scenario fields and expressions.

use std::fmt;

/// A value that a scenario line carries or an expression yields.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Absent.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// A string.
    String(String),
    /// A list.
    List(Vec<Self>),
}

impl Value {
    /// The kind of value, with its article, for messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an int",
            Self::Float(_) => "a float",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
        }
    }

    /// The integer this is; a bool counts as 0 or 1.
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(*i),
            Self::Bool(b) => Some(*b as i64),
            _ => None,
        }
    }

    /// The number this is.
    #[must_use]
    pub const fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(*i as f64),
            Self::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// The bool this is; an integer counts as true unless it is 0.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            Self::Int(i) => Some(*i != 0),
            _ => None,
        }
    }

    /// The list of integers this is.
    #[must_use]
    pub fn as_int_list(&self) -> Option<Vec<i64>> {
        match self {
            Self::List(items) => items.iter().map(Self::as_int).collect(),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(i) => write!(f, "{i}"),
            Self::Float(x) => write!(f, "{x:?}"),
            Self::String(s) => write!(f, "'{s}'"),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i == 8 && items.len() > 10 {
                        write!(f, ", … {} more", items.len() - i)?;
                        break;
                    }
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}
