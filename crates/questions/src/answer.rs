//! Whether an answer holds the evidence that was asked for.

use crate::entry::{Entry, Evidence, Field, FieldType, Scalar};
use kernelseek_core::expression::{EvalError, Evaluator, SyntaxError};
use kernelseek_core::value::Value;
use serde_json::{Map, Value as Json};

/// Longest answer in bytes of JSON.
pub const LONGEST_ANSWER: usize = 64 << 10;
/// Longest list of an answer.
pub const LONGEST_LIST: usize = 10_000;

/// Why an answer could not be judged: what to change about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// A field is missing.
    #[error("the answer has no `{field}`, which is {expected}; {outline}")]
    Missing {
        /// The field.
        field: String,
        /// What it should be.
        expected: String,
        /// The whole answer in outline.
        outline: String,
    },
    /// A field has the wrong type.
    #[error("`{field}` wants {expected}, not {found}")]
    WrongType {
        /// The field.
        field: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Columns of one table differ in length.
    #[error(
        "`{first}` has {first_length} rows and `{second}` has {second_length}: the lists are columns of one table"
    )]
    Uneven {
        /// A column.
        first: String,
        /// Its length.
        first_length: usize,
        /// A column of another length.
        second: String,
        /// Its length.
        second_length: usize,
    },
    /// The answer is too long.
    #[error("an answer of {bytes} bytes; at most {LONGEST_ANSWER}")]
    TooLong {
        /// Its length as JSON.
        bytes: usize,
    },
    /// A list is too long.
    #[error("`{field}` has {length} elements; at most {LONGEST_LIST}")]
    LongList {
        /// The field.
        field: String,
        /// Its length.
        length: usize,
    },
    /// The entry's predicate is no expression.
    #[error("the predicate of {entry} is no expression")]
    Predicate {
        /// Id of the entry.
        entry: String,
        /// Why.
        source: SyntaxError,
    },
    /// The predicate fails on these values.
    #[error("the predicate of {entry} could not be worked out from the answer: {predicate}")]
    Evaluation {
        /// Id of the entry.
        entry: String,
        /// The predicate.
        predicate: String,
        /// Why.
        source: EvalError,
    },
    /// The predicate yields no bool.
    #[error("the predicate of {entry} yields {found}")]
    NoBool {
        /// Id of the entry.
        entry: String,
        /// What it yields.
        found: &'static str,
    },
}

/// Whether every predicate of `entry` is true of the answer `artefact`. Fields that the entry does not name are
/// passed over.
///
/// # Errors
/// If a field is missing or of the wrong type, the columns of a table differ in length, the answer is too long, or a
/// predicate cannot be evaluated.
pub fn judge_answer(entry: &Entry, artefact: &Map<String, Json>) -> Result<bool, AnswerError> {
    let bytes = serde_json::to_vec(artefact).map_or(usize::MAX, |b| b.len());
    if bytes > LONGEST_ANSWER {
        return Err(AnswerError::TooLong { bytes });
    }
    let mut tables = Vec::new();
    for evidence in &entry.evidence_expected {
        tables.push(read(entry, evidence, artefact)?);
    }
    // Everything is read before anything is judged: what is missing shows first.
    for (evidence, values) in entry.evidence_expected.iter().zip(&tables) {
        if !judge(entry, evidence, values)? {
            return Ok(false);
        }
    }
    Ok(true)
}

type Values<'e> = Vec<(&'e str, Value)>;

fn read<'e>(
    entry: &Entry,
    evidence: &'e Evidence,
    artefact: &Map<String, Json>,
) -> Result<Values<'e>, AnswerError> {
    let mut values: Values<'e> = Vec::new();
    let mut rows: Option<(&str, usize)> = None;
    for field in &evidence.fields {
        let given = artefact.get(&field.name).ok_or_else(|| AnswerError::Missing {
            field: field.name.clone(),
            expected: expected(field.of),
            outline: format!("an answer is {}: {}", entry.outline(), evidence.artifact),
        })?;
        let value = value(field, given)?;
        if let Value::List(items) = &value {
            match rows {
                Some((first, length)) if length != items.len() => {
                    return Err(AnswerError::Uneven {
                        first: first.to_owned(),
                        first_length: length,
                        second: field.name.clone(),
                        second_length: items.len(),
                    });
                }
                _ => rows = Some((&field.name, items.len())),
            }
        }
        values.push((&field.name, value));
    }
    Ok(values)
}

pub(crate) fn judge(
    entry: &Entry,
    evidence: &Evidence,
    values: &[(&str, Value)],
) -> Result<bool, AnswerError> {
    let failed = |source| AnswerError::Evaluation {
        entry: entry.id.clone(),
        predicate: evidence.predicate.text().to_owned(),
        source,
    };
    let expression = evidence
        .predicate
        .expression()
        .map_err(|source| AnswerError::Predicate { entry: entry.id.clone(), source: source.clone() })?;
    let mut evaluator = Evaluator::new().map_err(failed)?;
    for (name, value) in values {
        evaluator.set(name, value);
    }
    match evaluator.evaluate(expression).map_err(failed)? {
        Value::Bool(b) => Ok(b),
        other => Err(AnswerError::NoBool { entry: entry.id.clone(), found: other.kind() }),
    }
}

fn expected(of: FieldType) -> String {
    let (one, many) = match of.scalar {
        Scalar::Int => ("an integer", "integers"),
        Scalar::Double => ("a number", "numbers"),
        Scalar::Bool => ("true or false", "bools"),
        Scalar::String => ("a string", "strings"),
    };
    if of.list { format!("a list of {many}, one per row") } else { one.to_owned() }
}

fn value(field: &Field, given: &Json) -> Result<Value, AnswerError> {
    if !field.of.list {
        return scalar(field.of.scalar, given).ok_or_else(|| wrong(field, describe(given)));
    }
    let items = given.as_array().ok_or_else(|| wrong(field, describe(given)))?;
    if items.len() > LONGEST_LIST {
        return Err(AnswerError::LongList { field: field.name.clone(), length: items.len() });
    }
    let read = |(i, item): (usize, &Json)| {
        let found = scalar(field.of.scalar, item);
        found.ok_or_else(|| wrong(field, format!("{} in row {}", describe(item), i + 1)))
    };
    Ok(Value::List(items.iter().enumerate().map(read).collect::<Result<_, _>>()?))
}

fn wrong(field: &Field, found: String) -> AnswerError {
    AnswerError::WrongType { field: field.name.clone(), expected: expected(field.of), found }
}

/// The value of this type; a whole number is both an integer and a double, however it is written.
fn scalar(of: Scalar, given: &Json) -> Option<Value> {
    match of {
        Scalar::Bool => given.as_bool().map(Value::Bool),
        Scalar::String => given.as_str().map(|s| Value::String(s.to_owned())),
        Scalar::Double => given.as_f64().filter(|x| x.is_finite()).map(Value::Float),
        Scalar::Int => given.as_i64().map(Value::Int).or_else(|| {
            // Beyond 2^53 not every integer is a double, so that one written as a double is a guess.
            let x = given.as_f64()?;
            (x.fract() == 0.0 && x.abs() < 9_007_199_254_740_992.0).then_some(Value::Int(x as i64))
        }),
    }
}

fn describe(given: &Json) -> String {
    const SHOWN: usize = 40;
    match given {
        Json::Null => "null".to_owned(),
        Json::Array(items) => format!("a list of {}", items.len()),
        Json::Object(_) => "an object".to_owned(),
        Json::String(s) => format!("the string {:?}", s.chars().take(SHOWN).collect::<String>()),
        other => format!("{other}"),
    }
}

#[cfg(test)]
mod tests;
