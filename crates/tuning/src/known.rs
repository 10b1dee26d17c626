//! What a call can know about itself: what routes may decide by. Never a scenario's id.

use kernelseek_core::case::{AttributeValue, Case};
use kernelseek_core::dtype::DType;
use serde::{Deserialize, Serialize};

/// One number that every call of the problem carries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Feature {
    /// As C reads it from `call`.
    pub expression: String,
    /// What kind of number.
    pub kind: FeatureKind,
}

/// Kinds of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureKind {
    /// An extent or an integer attribute.
    Int,
    /// A real attribute.
    Float,
    /// An element type: equal or not.
    Dtype,
}

/// A scenario as the routes see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spot {
    /// Scenario id.
    pub id: String,
    /// Value of each feature, in the order of the features.
    pub values: Vec<f64>,
}

/// Integers up to here are exact as doubles.
const EXACT: i64 = 1 << 53;

/// The features of a problem's calls, and the cases as spots. Features that are the same everywhere are left out; of two
/// that are equal everywhere the first stays. Attributes come first: they are what the author named.
#[must_use]
pub fn spots(cases: &[Case]) -> (Vec<Feature>, Vec<Spot>) {
    let mut columns: Vec<(Feature, Vec<f64>)> = Vec::new();
    let Some(first) = cases.first() else { return (Vec::new(), Vec::new()) };
    for (index, (name, value)) in first.attributes.iter().enumerate() {
        let kind = match value {
            AttributeValue::F64(_) => FeatureKind::Float,
            AttributeValue::I64(_) => FeatureKind::Int,
        };
        let values = cases.iter().map(|c| match c.attributes.get(index) {
            Some((_, AttributeValue::F64(x))) => Some(*x),
            Some((_, AttributeValue::I64(i))) => ((-EXACT..=EXACT).contains(i)).then_some(*i as f64),
            None => None,
        });
        push(&mut columns, format!("call->{name}"), kind, values.collect());
    }
    for (index, tensor) in first.tensors.iter().enumerate() {
        let at = |c: &Case| c.tensors.get(index).cloned();
        let rank = cases.iter().filter_map(|c| Some(at(c)?.shape.len())).max().unwrap_or(0);
        for axis in 0..rank {
            // Extents past the rank, and of absent tensors, are 0 in the call.
            let values = cases.iter().map(|c| {
                let t = at(c)?;
                Some(if t.is_present() { t.shape.get(axis).copied().unwrap_or(0) as f64 } else { 0.0 })
            });
            let expression = format!("call->{}.shape[{axis}]", tensor.name);
            push(&mut columns, expression, FeatureKind::Int, values.collect());
        }
        let values = cases.iter().map(|c| Some(f64::from(at(c)?.dtype as i32)));
        push(&mut columns, format!("call->{}.dtype", tensor.name), FeatureKind::Dtype, values.collect());
    }
    let spots = cases
        .iter()
        .enumerate()
        .map(|(i, case)| Spot { id: case.id.clone(), values: columns.iter().map(|(_, v)| v[i]).collect() });
    let spots = spots.collect();
    (columns.into_iter().map(|(f, _)| f).collect(), spots)
}

fn push(
    columns: &mut Vec<(Feature, Vec<f64>)>,
    expression: String,
    kind: FeatureKind,
    values: Option<Vec<f64>>,
) {
    let Some(values) = values.filter(|v| v.iter().all(|x| x.is_finite())) else { return };
    let constant = values.windows(2).all(|w| w[0] == w[1]);
    if constant || columns.iter().any(|(f, known)| *known == values && f.kind == kind) {
        return;
    }
    columns.push((Feature { expression, kind }, values));
}

/// The constant of the header that stands for an element type.
pub(crate) fn dtype_constant(code: f64) -> String {
    DType::from_code(code as i32)
        .map_or_else(|| format!("{code:.0}"), |d| format!("KS_{}", d.name().to_uppercase()))
}
