//! From a scenario to a [`Case`]: every expression evaluated, every shape and content checked.

mod content;
mod tensors;
mod views;

use crate::case::{AttributeValue, Case, Tolerance};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::expression::{Evaluator, Expression};
use crate::problem::{AttributeType, Problem, ToleranceRule};
use crate::scenario::Scenario;
use crate::value::Value;
use std::ops::Range;

/// Most bytes that one slot's storages may have together: 1 TiB.
pub const MOST_BYTES: u64 = 1 << 40;

/// Evaluates everything the problem says about `scenario`.
///
/// # Errors
/// The first thing that cannot be, pointing at the key in the problem file and naming the scenario and its line:
/// an expression that fails or yields the wrong type, a negative, overflowing or too large shape, strides that
/// overlap, views of one storage that overlap, content that does not fit its shape or dtype.
pub fn resolve(problem: &Problem, scenario: &Scenario) -> Result<Case, Diagnostic> {
    let resolver = Resolver::new(problem, scenario)?;
    let (tensors, storages) = tensors::all(&resolver)?;
    let mut attributes = Vec::with_capacity(problem.attributes.len());
    for attribute in &problem.attributes {
        let value = match attribute.kind {
            AttributeType::F64 => AttributeValue::F64(resolver.float(&attribute.value, &attribute.name)?),
            AttributeType::I64 => AttributeValue::I64(resolver.int(&attribute.value, &attribute.name)?),
        };
        attributes.push((attribute.name.clone(), value));
    }
    let cost = |expression: &Expression, what: &str| {
        let x = resolver.float(expression, what)?;
        if x < 0.0 {
            return Err(resolver.error(&expression.span(), format!("`{what}` is negative: {x}")));
        }
        Ok(x)
    };
    let (flops, bytes) = match &problem.cost {
        Some(c) => (Some(cost(&c.flops, "flops")?), Some(cost(&c.bytes, "bytes")?)),
        None => (None, None),
    };
    let tolerance = problem
        .tensors
        .iter()
        .map(|t| t.role.is_output().then(|| tolerance(&resolver, &t.name)).transpose())
        .collect::<Result<_, _>>()?;
    Ok(Case {
        id: scenario.id.clone(),
        tags: scenario.tags.clone(),
        tensors,
        storages,
        attributes,
        flops,
        bytes,
        tolerance,
    })
}

/// Whether `keep` of the held-out rules is true for `scenario`; true without one.
///
/// # Errors
/// If a named expression or `keep` itself fails.
pub(crate) fn keeps(problem: &Problem, keep: &Expression, scenario: &Scenario) -> Result<bool, Diagnostic> {
    Resolver::new(problem, scenario)?.bool(keep, "keep")
}

/// A scenario's fields and named expressions, evaluated.
struct Resolver<'a> {
    problem: &'a Problem,
    scenario: &'a Scenario,
    evaluator: Evaluator,
}

impl<'a> Resolver<'a> {
    fn new(problem: &'a Problem, scenario: &'a Scenario) -> Result<Self, Diagnostic> {
        let evaluator = Evaluator::new().map_err(|e| Diagnostic::new(&problem.source, 0..0, e.message))?;
        let mut this = Self { problem, scenario, evaluator };
        for field in &problem.fields {
            let value = scenario.values.get(&field.name).unwrap_or(&Value::Null);
            this.evaluator.set(&field.name, value);
        }
        for l in &problem.lets {
            let value = this.value(&l.value, &l.name)?;
            this.evaluator.set(&l.name, &value);
        }
        Ok(this)
    }

    /// A diagnostic at a place of the problem file that names the scenario.
    fn error(&self, span: &Range<usize>, message: impl AsRef<str>) -> Diagnostic {
        let place = self.scenario.place();
        let message = format!("{} (scenario `{}`, {place})", message.as_ref(), self.scenario.id);
        Diagnostic::new(&self.problem.source, span.clone(), message)
    }

    fn value(&self, expression: &Expression, what: &str) -> Result<Value, Diagnostic> {
        self.evaluator.evaluate(expression).map_err(|e| {
            self.error(&expression.span(), format!("`{what}`: {}", e.message)).with_hint_opt(e.hint)
        })
    }

    fn wrong(&self, expression: &Expression, what: &str, wanted: &str, value: &Value) -> Diagnostic {
        let hint = match (wanted, value) {
            ("an int", Value::Float(_)) => Some("`int(x)` converts".to_owned()),
            _ => None,
        };
        let message = format!("`{what}` must be {wanted}, not {value}");
        self.error(&expression.span(), message).with_hint_opt(hint)
    }

    fn int(&self, expression: &Expression, what: &str) -> Result<i64, Diagnostic> {
        let value = self.value(expression, what)?;
        value.as_int().ok_or_else(|| self.wrong(expression, what, "an int", &value))
    }

    /// A finite number.
    fn float(&self, expression: &Expression, what: &str) -> Result<f64, Diagnostic> {
        let value = self.value(expression, what)?;
        let finite = value.as_float().or_else(|| value.as_int().map(|i| i as f64)).filter(|x| x.is_finite());
        finite.ok_or_else(|| self.wrong(expression, what, "a finite number", &value))
    }

    /// A finite number, or `None` for null.
    fn optional_float(&self, expression: &Expression, what: &str) -> Result<Option<f64>, Diagnostic> {
        match self.value(expression, what)? {
            Value::Null => Ok(None),
            _ => self.float(expression, what).map(Some),
        }
    }

    fn bool(&self, expression: &Expression, what: &str) -> Result<bool, Diagnostic> {
        let value = self.value(expression, what)?;
        value.as_bool().ok_or_else(|| self.wrong(expression, what, "true or false", &value))
    }

    fn ints(&self, expression: &Expression, what: &str) -> Result<Vec<i64>, Diagnostic> {
        let value = self.value(expression, what)?;
        value.as_int_list().ok_or_else(|| self.wrong(expression, what, "a list of ints", &value))
    }

    /// A list of ints, or `None` for null.
    fn optional_ints(&self, expression: &Expression, what: &str) -> Result<Option<Vec<i64>>, Diagnostic> {
        match self.value(expression, what)? {
            Value::Null => Ok(None),
            value => {
                let ints = value.as_int_list();
                ints.map(Some).ok_or_else(|| self.wrong(expression, what, "a list of ints", &value))
            }
        }
    }

    fn dtype(&self, expression: &Expression) -> Result<DType, Diagnostic> {
        let value = self.value(expression, "dtype")?;
        let Value::String(name) = &value else {
            return Err(self.wrong(expression, "dtype", "the name of a dtype", &value));
        };
        DType::from_name(name).ok_or_else(|| {
            let hint = crate::diagnostic::suggestion(name, DType::ALL.map(DType::name));
            self.error(&expression.span(), format!("unknown dtype `{name}`")).with_hint_opt(hint)
        })
    }
}

fn tolerance(resolver: &Resolver<'_>, output: &str) -> Result<Tolerance, Diagnostic> {
    let table = &resolver.problem.tolerance;
    let own = table.outputs.iter().find(|(name, _)| name == output).map(|(_, rule)| rule);
    let pick = |part: fn(&ToleranceRule) -> &Option<Expression>| {
        own.and_then(|r| part(r).as_ref()).or(part(&table.all).as_ref())
    };
    let number = |part: fn(&ToleranceRule) -> &Option<Expression>, key: &str, default: Option<f64>| {
        let Some(expression) = pick(part) else { return Ok(default) };
        match resolver.optional_float(expression, key)? {
            None => Ok(default),
            Some(x) if x >= 0.0 => Ok(Some(x)),
            Some(x) => Err(resolver.error(&expression.span(), format!("`{key}` is negative: {x}"))),
        }
    };
    let usual = Tolerance::default();
    let nonfinite = own.and_then(|r| r.nonfinite_matches).or(table.all.nonfinite_matches);
    Ok(Tolerance {
        k: number(|r| &r.k, "k", None)?.unwrap_or(usual.k),
        rms_k: number(|r| &r.rms_k, "rms_k", None)?.unwrap_or(usual.rms_k),
        floor_ulps: number(|r| &r.floor_ulps, "floor_ulps", None)?.unwrap_or(usual.floor_ulps),
        floor_abs: number(|r| &r.floor_abs, "floor_abs", None)?.unwrap_or(usual.floor_abs),
        rel_rms_max: number(|r| &r.rel_rms_max, "rel_rms_max", usual.rel_rms_max)?,
        atol: number(|r| &r.atol, "atol", usual.atol)?,
        nonfinite_matches: nonfinite.unwrap_or(usual.nonfinite_matches),
    })
}
