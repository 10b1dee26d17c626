//! The functions of the expression language and the work budget.

use super::{EvalError, LONGEST_LIST, LONGEST_STRING};
use crate::value::Value;
use cel::extractors::Arguments;
use cel::{Context, DeclarationError, ExecutionError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that one evaluation may take: about as many as list elements touched.
const STEPS: u64 = 10_000_000;

/// Charges the size of a variable each time it is read.
pub(super) const READ: &str = "@read";
/// Charges a comprehension: the length of its range times the size of its body.
pub(super) const LOOP: &str = "@loop";

/// Work left to one evaluation.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn refill(&self) {
        self.0.store(STEPS, Ordering::Relaxed);
    }
    /// Takes `steps` off the budget.
    fn charge(&self, steps: u64) -> Result<(), String> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(steps), Ordering::Relaxed);
        if steps > left { Err(format!("too much work: more than {STEPS} steps")) } else { Ok(()) }
    }
}

type Function = fn(&[cel::Value], &Budget) -> Result<cel::Value, String>;

/// Our functions: name, how it is called, implementation.
const FUNCTIONS: [(&str, &str, Function); 15] = [
    ("sum", "sum(list)", sum),
    ("max", "max(list) or max(a, b)", |a, b| extreme(a, b, f64::gt, i64::gt)),
    ("min", "min(list) or min(a, b)", |a, b| extreme(a, b, f64::lt, i64::lt)),
    ("cumsum", "cumsum(list)", cumsum),
    ("ceil_div", "ceil_div(a, b)", ceil_div),
    ("fill", "fill(n, value)", fill),
    ("range", "range(n)", range),
    ("sqrt", "sqrt(x)", |a, _| one(a).map(|x| float(x.sqrt()))),
    ("log2", "log2(x)", |a, _| one(a).map(|x| float(x.log2()))),
    ("abs", "abs(x)", |a, _| one(a).map(|x| float(x.abs()))),
    ("pow", "pow(x, y)", |a, _| {
        let [x, y] = a else { return Err(arity()) };
        Ok(float(number(x)?.powf(number(y)?)))
    }),
    ("clamp", "clamp(x, lo, hi)", |a, _| {
        let [x, lo, hi] = integers(a)?;
        Ok(cel::Value::Int(x.max(lo).min(hi)))
    }),
    ("clamp_sum", "clamp_sum(first, count, lo, hi)", |a, _| {
        let [first, count, lo, hi] = integers(a)?;
        clamp_sum(first, count, lo, hi).map(cel::Value::Int).ok_or_else(|| "the sum overflows".to_owned())
    }),
    (READ, "", read),
    (LOOP, "", charge_loop),
];

/// Functions of the CEL library that may be used, and whether they are called on a value (`x.f(y)`).
const BUILT_IN: [(&str, bool); 9] = [
    ("size", false),
    ("size", true),
    ("int", false),
    ("double", false),
    ("string", false),
    ("bool", false),
    ("contains", true),
    ("startsWith", true),
    ("endsWith", true),
];

/// Whether a function may be called by this name, on a value or not.
pub(super) fn is_known(name: &str, on_value: bool) -> bool {
    BUILT_IN.contains(&(name, on_value))
        || (!on_value && FUNCTIONS.iter().any(|(n, usage, _)| *n == name && !usage.is_empty()))
}

/// Names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().filter(|f| !f.1.is_empty()).map(|f| f.0).chain(BUILT_IN.iter().map(|f| f.0))
}

/// Adds the functions to `context`; they charge `budget`.
pub(super) fn register(context: &mut Context<'_, '_>, budget: &Arc<Budget>) -> Result<(), DeclarationError> {
    for (name, usage, function) in FUNCTIONS {
        let budget = Arc::clone(budget);
        context.add_function(name, move |Arguments(arguments): Arguments| {
            function(&arguments, &budget).map_err(|message| {
                let message = if message.is_empty() { format!("is called as `{usage}`") } else { message };
                ExecutionError::function_error(name, message)
            })
        })?;
    }
    Ok(())
}

/// Converts to the library's value.
pub(super) fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        Value::Int(i) => cel::Value::Int(*i),
        Value::Float(f) => cel::Value::Float(*f),
        Value::String(s) => cel::Value::String(Arc::new(s.clone())),
        Value::List(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
    }
}

/// Converts from the library's value; `left` is how many list elements may still be built.
pub(super) fn from_cel(value: &cel::Value, left: &mut usize) -> Result<Value, EvalError> {
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(b) => Value::Bool(*b),
        cel::Value::Int(i) => Value::Int(*i),
        cel::Value::Float(f) => Value::Float(*f),
        cel::Value::String(s) if s.len() <= LONGEST_STRING => Value::String(s.as_str().to_owned()),
        cel::Value::String(s) => return Err(EvalError::new(format!("a string of {} bytes", s.len()))),
        cel::Value::List(items) => {
            let Some(rest) = left.checked_sub(items.len()) else {
                return Err(EvalError::new(format!("a list of more than {LONGEST_LIST} elements")));
            };
            *left = rest;
            Value::List(items.iter().map(|v| from_cel(v, left)).collect::<Result<_, _>>()?)
        }
        _ => {
            return Err(EvalError::new(
                "an expression must yield a number, bool, string, null or a list of them",
            ));
        }
    })
}

/// How many steps it takes to copy a value.
fn weight(value: &cel::Value) -> u64 {
    match value {
        cel::Value::List(items) => 1 + items.iter().map(weight).sum::<u64>(),
        cel::Value::String(s) => 1 + s.len() as u64 / 16,
        cel::Value::Map(map) => 1 + map.map.values().map(|v| 1 + weight(v)).sum::<u64>(),
        _ => 1,
    }
}

fn read(arguments: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let [value] = arguments else { return Err("malformed tree".to_owned()) };
    budget.charge(weight(value))?;
    Ok(value.clone())
}

fn charge_loop(arguments: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let [over, cel::Value::Int(body)] = arguments else { return Err("malformed tree".to_owned()) };
    let length = match over {
        cel::Value::List(items) => items.len() as u64,
        cel::Value::Map(map) => map.map.len() as u64,
        _ => 1,
    };
    budget.charge(weight(over).saturating_add(length.saturating_mul(body.unsigned_abs())))?;
    Ok(over.clone())
}

/// An empty message stands for "wrong number of arguments"; the caller knows how the function is called.
const fn arity() -> String {
    String::new()
}

fn float(x: f64) -> cel::Value {
    cel::Value::Float(x)
}

/// The library's name of the type of a value.
pub(super) const fn type_name(value: &cel::Value) -> &'static str {
    match value {
        cel::Value::Null => "null",
        cel::Value::Bool(_) => "bool",
        cel::Value::Int(_) => "int",
        cel::Value::Float(_) => "double",
        cel::Value::String(_) => "string",
        cel::Value::List(_) => "list",
        _ => "map",
    }
}

fn number(value: &cel::Value) -> Result<f64, String> {
    match value {
        cel::Value::Int(i) => Ok(*i as f64),
        cel::Value::Float(f) => Ok(*f),
        other => Err(format!("wants a number, not {}", type_name(other))),
    }
}

fn integer(value: &cel::Value) -> Result<i64, String> {
    match value {
        cel::Value::Int(i) => Ok(*i),
        cel::Value::Bool(b) => Ok(i64::from(*b)),
        other => Err(format!("wants an int, not {}", type_name(other))),
    }
}

fn integers<const N: usize>(values: &[cel::Value]) -> Result<[i64; N], String> {
    let values: &[cel::Value; N] = values.try_into().map_err(|_| arity())?;
    let mut result = [0; N];
    for (slot, value) in result.iter_mut().zip(values) {
        *slot = integer(value)?;
    }
    Ok(result)
}

fn one(values: &[cel::Value]) -> Result<f64, String> {
    let [x] = values else { return Err(arity()) };
    number(x)
}

fn list<'a>(values: &'a [cel::Value], budget: &Budget) -> Result<&'a [cel::Value], String> {
    let [value] = values else { return Err(arity()) };
    let cel::Value::List(items) = value else {
        return Err(format!("wants a list, not {}", type_name(value)));
    };
    budget.charge(1 + items.len() as u64)?;
    Ok(items)
}

fn sum(values: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let items = list(values, budget)?;
    if items.iter().any(|v| matches!(v, cel::Value::Float(_))) {
        return items.iter().map(number).sum::<Result<f64, _>>().map(float);
    }
    let mut total = 0i64;
    for item in items {
        total = total.checked_add(integer(item)?).ok_or("the sum overflows")?;
    }
    Ok(cel::Value::Int(total))
}

fn extreme(
    values: &[cel::Value],
    budget: &Budget,
    better_float: fn(&f64, &f64) -> bool,
    better_int: fn(&i64, &i64) -> bool,
) -> Result<cel::Value, String> {
    let items = match values {
        [cel::Value::List(_)] => list(values, budget)?,
        [_, _] => values,
        _ => return Err(arity()),
    };
    let mut best: Option<&cel::Value> = None;
    for item in items {
        let better = match (item, best) {
            (_, None) => number(item).map(|_| true)?,
            (cel::Value::Int(a), Some(cel::Value::Int(b))) => better_int(a, b),
            (a, Some(b)) => better_float(&number(a)?, &number(b)?),
        };
        if better {
            best = Some(item);
        }
    }
    best.cloned().ok_or_else(|| "of an empty list".to_owned())
}

fn cumsum(values: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let items = list(values, budget)?;
    let mut total = 0i64;
    let mut result = Vec::with_capacity(items.len() + 1);
    result.push(cel::Value::Int(0));
    for item in items {
        total = total.checked_add(integer(item)?).ok_or("the sum overflows")?;
        result.push(cel::Value::Int(total));
    }
    Ok(cel::Value::List(Arc::new(result)))
}

fn ceil_div(values: &[cel::Value], _: &Budget) -> Result<cel::Value, String> {
    let [a, b] = integers(values)?;
    if b <= 0 {
        return Err(format!("wants a positive divisor, not {b}"));
    }
    let quotient = a.div_euclid(b);
    Ok(cel::Value::Int(if a.rem_euclid(b) > 0 { quotient + 1 } else { quotient }))
}

fn length(n: i64) -> Result<usize, String> {
    usize::try_from(n)
        .ok()
        .filter(|n| *n <= LONGEST_LIST)
        .ok_or_else(|| format!("wants a length from 0 to {LONGEST_LIST}, not {n}"))
}

fn fill(values: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let [n, value] = values else { return Err(arity()) };
    let n = length(integer(n)?)?;
    budget.charge((n as u64).saturating_mul(weight(value)))?;
    Ok(cel::Value::List(Arc::new(vec![value.clone(); n])))
}

fn range(values: &[cel::Value], budget: &Budget) -> Result<cel::Value, String> {
    let [n] = integers(values)?;
    let n = length(n)?;
    budget.charge(n as u64)?;
    Ok(cel::Value::List(Arc::new((0..n as i64).map(cel::Value::Int).collect())))
}

/// Sum of `min(max(first + i, lo), hi)` for i in `[0, count)`, without a loop; `None` if it does not fit.
fn clamp_sum(first: i64, count: i64, lo: i64, hi: i64) -> Option<i64> {
    let (first, count, lo, hi) =
        (i128::from(first), i128::from(count.max(0)), i128::from(lo), i128::from(hi));
    if lo >= hi {
        return count.checked_mul(hi).and_then(|s| i64::try_from(s).ok());
    }
    let below = (lo - first).clamp(0, count);
    let above = count - (hi - first).clamp(0, count);
    let between = count - below - above;
    // The terms between run from `first + below` in steps of one.
    let middle = between.checked_mul(2 * (first + below) + between - 1)? / 2;
    let total = below.checked_mul(lo)?.checked_add(above.checked_mul(hi)?)?.checked_add(middle)?;
    i64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::clamp_sum;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn clamp_sum_equals_the_loop(first in -50i64..50, count in 0i64..80, lo in -60i64..60, hi in -60i64..60) {
            let expected: i64 = (0..count).map(|i| (first + i).max(lo).min(hi)).sum();
            prop_assert_eq!(clamp_sum(first, count, lo, hi), Some(expected));
        }

        #[test]
        fn clamp_sum_never_panics(a: i64, b: i64, c: i64, d: i64) {
            let _ = clamp_sum(a, b, c, d);
        }
    }
}
