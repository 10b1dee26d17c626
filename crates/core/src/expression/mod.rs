//! Expressions of problem files: CEL, with a small set of functions, bounded in size and in work.
//!
//! The `cel` crate parses and evaluates. It sets no limit on work, so the syntax tree is changed once after
//! parsing: every variable and every comprehension is passed through a function that charges a budget, and an
//! evaluation that outspends it ends with an error instead of filling the memory.

mod functions;
mod tree;

use crate::value::Value;
use cel::common::ast::IdedExpr;
use cel::parser::PrattParser;
use cel::{Context, ExecutionError, OverloadError};
use functions::Budget;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Longest expression in characters.
pub const LONGEST: usize = 2_000;
/// Deepest nesting of brackets.
pub const DEEPEST: usize = 64;
/// Longest list that an expression may yield or build.
pub const LONGEST_LIST: usize = 1_000_000;
/// Longest string that an expression may yield.
const LONGEST_STRING: usize = 4_096;

/// What is wrong with the text of an expression, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte range in the expression's text.
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }
    fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

#[derive(Debug, Clone)]
enum Form {
    Constant(Value),
    Tree(Arc<IdedExpr>),
}

/// A checked expression, or a constant in its place, with its range in the file.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    span: Range<usize>,
    form: Form,
    names: BTreeSet<String>,
}

impl Expression {
    /// An expression that always yields `value`.
    pub(crate) fn constant(value: Value, span: Range<usize>) -> Self {
        Self { text: value.to_string(), span, form: Form::Constant(value), names: BTreeSet::new() }
    }

    /// Parses `text`; names are not resolved, see [`Expression::names`].
    pub(crate) fn parse(text: &str, span: Range<usize>) -> Result<Self, Fault> {
        guard(text)?;
        let parser = PrattParser::new().max_recursion_depth(96).max_expression_node_count(LONGEST);
        let parsed = parser.parse(text).map_err(|errors| {
            errors.errors.first().map_or_else(
                || Fault::new(0..text.len(), "not an expression"),
                |e| {
                    let at = place(text, e.pos);
                    Fault::new(at, tree::plain_syntax_error(&e.msg))
                },
            )
        })?;
        let checked = tree::check(parsed, text)?;
        Ok(Self {
            text: text.to_owned(),
            span,
            form: Form::Tree(Arc::new(checked.tree)),
            names: checked.names,
        })
    }

    /// Parses an expression that stands alone: a condition of a goal, a trigger, a predicate over an answer. Names are
    /// not resolved, see [`Expression::names`].
    ///
    /// # Errors
    /// What is wrong with the text, and where in it.
    pub fn alone(text: &str) -> Result<Self, SyntaxError> {
        Self::parse(text, 0..text.len()).map_err(|fault| SyntaxError {
            at: fault.at,
            message: fault.message,
            hint: fault.hint,
        })
    }

    /// As it is written in the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Its range in the problem file.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
    /// The variables it reads.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
    /// The value if it is a constant.
    #[must_use]
    pub fn as_constant(&self) -> Option<&Value> {
        match &self.form {
            Form::Constant(v) => Some(v),
            Form::Tree(_) => None,
        }
    }
}

/// Byte range of the identifier `name` in an expression's text, outside string literals.
pub(crate) fn find_name(text: &str, name: &str) -> Range<usize> {
    tree::find_name(text, name, false)
}

/// Whether expressions have a function of this name.
pub(crate) fn is_function(name: &str) -> bool {
    functions::names().any(|n| n == name)
}

/// Refuses what could exhaust the parser's stack.
fn guard(text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new(0..text.len(), "an empty expression"));
    }
    let length = text.chars().count();
    if length > LONGEST {
        return Err(Fault::new(0..text.len(), format!("an expression of {length} characters"))
            .with_hint(Some(format!("at most {LONGEST}; move parts of it to [let]"))));
    }
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Fault::new(i..i + 1, format!("brackets nested more than {DEEPEST} deep"))
                .with_hint(Some("move parts of it to [let]".into())));
        }
    }
    Ok(())
}

/// Byte range of one character from a position of the parser: line from 1, column from 1.
fn place(text: &str, (line, column): (isize, isize)) -> Range<usize> {
    let line = usize::try_from(line).unwrap_or(1).max(1);
    let column = usize::try_from(column).unwrap_or(1).max(1);
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let mut at = (start + column - 1).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at..at + text[at..].chars().next().map_or(0, char::len_utf8)
}

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Byte range in the text.
    pub at: Range<usize>,
    /// What is wrong, a lowercase fragment.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
}

/// Why an expression did not yield a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// What went wrong, a lowercase fragment.
    pub message: String,
    /// What may help.
    pub hint: Option<String>,
}

impl EvalError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }
}

/// Variables and the functions, ready to evaluate expressions.
pub struct Evaluator {
    context: Context<'static, 'static>,
    budget: Arc<Budget>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").finish_non_exhaustive()
    }
}

impl Evaluator {
    /// An evaluator without variables.
    ///
    /// # Errors
    /// If the CEL library refuses the name of one of the functions.
    pub fn new() -> Result<Self, EvalError> {
        let budget = Arc::new(Budget::default());
        let mut context = Context::default();
        functions::register(&mut context, &budget)
            .map_err(|e| EvalError::new(format!("the CEL library refuses a function: {e}")))?;
        Ok(Self { context, budget })
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.context.add_variable_from_value(name, functions::to_cel(value));
    }

    /// Evaluates `expression` with the variables set so far.
    ///
    /// # Errors
    /// If the expression fails, yields something else than null, bool, int, double, string or a list of them,
    /// or more than [`LONGEST_LIST`] elements, or does more work than its budget.
    pub fn evaluate(&self, expression: &Expression) -> Result<Value, EvalError> {
        let tree = match &expression.form {
            Form::Constant(value) => return Ok(value.clone()),
            Form::Tree(tree) => tree,
        };
        self.budget.refill();
        let value = cel::Value::resolve(tree, &self.context).map_err(explain)?;
        let mut left = LONGEST_LIST;
        functions::from_cel(&value, &mut left)
    }
}

/// Turns an error of the library into a fragment in this crate's words.
fn explain(error: ExecutionError) -> EvalError {
    match error {
        ExecutionError::FunctionError { function, message } if function.starts_with('@') => {
            EvalError::new(message)
        }
        ExecutionError::FunctionError { function, message } => {
            EvalError::new(format!("{function}: {message}"))
        }
        ExecutionError::NoSuchOverload(e) => explain_overload(&e),
        ExecutionError::UnsupportedBinaryOperator(operator, a, b) => {
            explain_types(sign(operator), &[functions::type_name(&a), functions::type_name(&b)])
        }
        ExecutionError::UndeclaredReference(name) => EvalError::new(format!("`{name}` has no value here")),
        ExecutionError::DivisionByZero(_) => EvalError::new("division by zero"),
        ExecutionError::RemainderByZero(_) => EvalError::new("remainder by zero"),
        ExecutionError::Overflow(operator, ..) => {
            EvalError::new(format!("integer overflow in `{}`", sign(operator)))
        }
        ExecutionError::IndexOutOfBounds(_) => EvalError::new("index out of bounds"),
        ExecutionError::NoSuchKey(key) => EvalError::new(format!("no key `{key}` in the map")),
        other => {
            let mut text: String = other.to_string().chars().take(200).collect();
            if let Some(first) = text.get(..1) {
                let lower = first.to_lowercase();
                text.replace_range(..1, &lower);
            }
            EvalError::new(text)
        }
    }
}

/// The sign of an operator that the library calls by a word.
fn sign(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other.trim_matches('_'),
    }
}

fn explain_overload(error: &OverloadError) -> EvalError {
    let types: Vec<&str> =
        error.argument_types().iter().map(|t| if t == "null_type" { "null" } else { t.as_str() }).collect();
    explain_types(error.function().trim_start_matches('@').trim_matches('_'), &types)
}

fn explain_types(operator: &str, types: &[&str]) -> EvalError {
    let hint = if types.contains(&"int") && types.contains(&"double") {
        Some("ints and doubles do not mix: `double(x)` converts".to_owned())
    } else if types.contains(&"null") {
        Some("an optional field is null when the scenario does not give it: test with `== null`".to_owned())
    } else {
        None
    };
    EvalError { message: format!("`{operator}` does not take {}", types.join(" and ")), hint }
}

#[cfg(test)]
mod tests;
