//! What a problem for a kernel looks like: tensors, fields, attributes, and the reason for every guess.

use crate::extent::{self, Axes};
use crate::leaf::{Kind, Leaf, Leaves, Passed, fit};
use crate::poly::Polynomial;
use crate::prototype::Prototype;
use crate::role::{Use, role};
use crate::types::{Base, Layer, Scalar};
use crate::walk::{Access, Seen, Value};
use kernelseek_core::case::Role;
use std::collections::{BTreeMap, BTreeSet};

mod number;
mod unknown;

/// A tensor of the call.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    /// Its leaf; `None` for what the function returns.
    pub(crate) leaf: Option<usize>,
    /// Name.
    pub(crate) name: String,
    /// Element type.
    pub(crate) scalar: Scalar,
    /// Role.
    pub(crate) role: Role,
    /// Extents.
    pub(crate) shape: Vec<Polynomial>,
    /// Strides, where rows do not follow each other without gaps.
    pub(crate) stride: Option<Vec<Polynomial>>,
    /// Generator, as TOML.
    pub(crate) generator: Option<String>,
    /// Whether every call is known to touch all of it: an input that is read where the data says may be read in part.
    pub(crate) whole: bool,
    /// What a person should check, with the reason.
    pub(crate) guesses: Vec<String>,
}

impl Tensor {
    /// Elements from the first to the last.
    #[must_use]
    pub(crate) fn elements(&self) -> Option<Polynomial> {
        self.shape.iter().try_fold(Polynomial::from(1), |product, e| product.times(e))
    }
}

/// What a number of the prototype is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Bounds loops or gives a shape.
    Size,
    /// The distance of rows.
    Pitch,
    /// Is only compared.
    Flag,
    /// Anything else.
    Number,
}

/// A field of the scenario line.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Name.
    pub(crate) name: String,
    /// What for.
    pub(crate) purpose: Purpose,
    /// Smallest value.
    pub(crate) min: i64,
    /// Largest value.
    pub(crate) max: Option<i64>,
    /// Every value is a multiple of this.
    pub(crate) multiple: i64,
    /// What a person should check.
    pub(crate) guesses: Vec<String>,
}

/// A number of the call struct.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    /// Name.
    pub(crate) name: String,
    /// Whether it is an f64, not an i64.
    pub(crate) real: bool,
    /// Its value, an expression.
    pub(crate) value: String,
    /// What a person should check.
    pub(crate) guesses: Vec<String>,
}

/// What becomes of the value that the function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    /// There is none.
    Nothing,
    /// A status: zero is success.
    Status,
    /// An output of one element.
    Element(Scalar),
    /// It is dropped.
    Dropped,
}

/// A plan.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Tensors, in the order of the prototype.
    pub(crate) tensors: Vec<Tensor>,
    /// Fields.
    pub(crate) fields: Vec<Field>,
    /// Attributes.
    pub(crate) attributes: Vec<Attribute>,
    /// What is returned.
    pub(crate) returned: Returned,
    /// What must hold in every scenario: the first at least the second.
    pub(crate) needs: Vec<(Polynomial, Polynomial)>,
    /// Operations on elements as the source does them.
    pub(crate) operations: Option<Polynomial>,
    /// Loop iterations, the most of any place.
    pub(crate) work: Vec<Polynomial>,
    /// For each written tensor, the lengths of the loops around each write: in every scenario all of them run.
    pub(crate) runs: Vec<Vec<Vec<Polynomial>>>,
    /// Remarks about the whole.
    pub(crate) guesses: Vec<String>,
}

/// Makes the plan for a prototype from what its body was seen doing.
///
/// # Errors
/// When what it returns cannot be expressed, in words.
pub(crate) fn plan(
    prototype: &Prototype,
    leaves: &Leaves,
    seen: &Seen,
    declared: &[Option<Vec<Option<Polynomial>>>],
) -> Result<Plan, String> {
    let mut by_leaf: BTreeMap<usize, Vec<&Access>> = BTreeMap::new();
    for access in &seen.accesses {
        by_leaf.entry(access.leaf).or_default().push(access);
    }
    let none: Vec<&Access> = Vec::new();
    let mut axes: BTreeMap<usize, Option<Axes>> = BTreeMap::new();
    for (index, leaf) in leaves.all.iter().enumerate() {
        if matches!(leaf.kind, Kind::Elements { .. }) {
            axes.insert(index, extent::axes(by_leaf.get(&index).unwrap_or(&none), &seen.ranges));
        }
    }
    let mut plan = Plan {
        tensors: Vec::new(),
        fields: Vec::new(),
        attributes: Vec::new(),
        returned: returned(prototype, seen)?,
        needs: Vec::new(),
        operations: None,
        work: Vec::new(),
        runs: Vec::new(),
        guesses: Vec::new(),
    };
    for (index, leaf) in leaves.all.iter().enumerate() {
        let Kind::Elements { scalar, constant, passed, .. } = &leaf.kind else { continue };
        let accesses = by_leaf.get(&index).unwrap_or(&none);
        let found = axes.get(&index).and_then(Option::as_ref);
        let used = role(accesses, found, &seen.ranges);
        let (role, mut guesses) = role_of(*constant, used, seen.escaped.get(&index), leaf);
        let (mut shape, stride, more) =
            shape_of(leaf, *passed, found, declared.get(index).and_then(Option::as_ref));
        guesses.extend(more);
        if *passed == Passed::Span
            && let Some(reach) = found.and_then(reach)
        {
            let own = format!("{}_size", leaf.name);
            if seen.bounds.contains(&own) {
                plan.needs.push((Polynomial::size(&own), reach));
            } else {
                guesses.retain(|g| !g.starts_with("shape"));
                guesses.push("shape: the span is as long as the body reaches".to_owned());
                shape = vec![Some(reach)];
            }
        }
        if role != Role::Output
            && let Some(Some(first)) = shape.first_mut()
            && let Some(whole) = rounded_up(first)
        {
            guesses.push(format!(
                "shape: {} would do, but {} is what such an array has; elements that nobody reads do no harm",
                first.text(),
                whole.text()
            ));
            *first = whole;
        }
        if !scalar.dtype.is_float() && role == Role::Output {
            guesses.push(
                "dtype: integers are compared exactly: none may hang on how a sum is rounded".to_owned(),
            );
        }
        if scalar.reinterpreted {
            guesses
                .push(format!("dtype: there is no {}; {} has the same bits", scalar.spelling, scalar.dtype));
        }
        if let Some(found) = found {
            plan.needs.extend(found.needs.iter().cloned());
            plan.needs.extend(found.runs.iter().map(|length| (length.clone(), 1.into())));
        }
        plan.tensors.push(Tensor {
            leaf: Some(index),
            name: leaf.name.clone(),
            scalar: *scalar,
            role,
            shape: shape.iter().map(|e| e.clone().unwrap_or_default()).collect(),
            stride,
            generator: None,
            whole: role != Role::Varying || found.is_some_and(|axes| axes.sure),
            guesses,
        });
        if role != Role::Varying {
            plan.runs.push(runs(accesses, seen));
        }
    }
    unknown::fill_in(&mut plan, leaves, seen, &axes);
    number::numbers(&mut plan, leaves, seen, &axes);
    unknown::generators(&mut plan, leaves, &axes);
    if let Returned::Element(scalar) = plan.returned {
        let taken: Vec<String> = leaves.all.iter().map(|l| l.name.clone()).collect();
        plan.tensors.push(Tensor {
            leaf: None,
            name: fit("result", false, &taken),
            scalar,
            role: Role::Output,
            shape: vec![1.into()],
            stride: None,
            generator: None,
            whole: true,
            guesses: vec!["output: what the function returns, as a tensor of one element".to_owned()],
        });
    }
    plan.operations = operations(seen);
    plan.work = seen
        .accesses
        .iter()
        .map(|a| &a.loops)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter_map(|loops| {
            loops.iter().try_fold(Polynomial::from(1), |p, l| p.times(&seen.ranges.trips(*l)?))
        })
        .filter(Polynomial::is_known)
        .collect();
    if seen.gave_up {
        plan.guesses.push("the body is too long to be followed to its end".to_owned());
    }
    if plan.tensors.iter().all(|t| t.role == Role::Varying) {
        return Err(
            "as far as its body can be read, it writes to none of its arrays and returns nothing".to_owned()
        );
    }
    Ok(plan)
}

/// Lengths of the loops around each write. Loops in larger steps have one for the rest beside them and may be empty.
fn runs(accesses: &[&Access], seen: &Seen) -> Vec<Vec<Polynomial>> {
    accesses
        .iter()
        .filter(|a| a.does != crate::walk::Does::Read)
        .map(|a| {
            a.loops
                .iter()
                .filter(|l| seen.ranges.all.get(**l).is_some_and(|r| r.step == 1))
                .filter_map(|l| seen.ranges.trips(*l))
                .filter(Polynomial::is_known)
                .collect()
        })
        .collect()
}

fn returned(prototype: &Prototype, seen: &Seen) -> Result<Returned, String> {
    let returns = &prototype.returns;
    match (&returns.base, returns.layers.as_slice()) {
        (Base::Void, []) => Ok(Returned::Nothing),
        (_, [Layer::Pointer | Layer::Reference, ..]) => Ok(Returned::Dropped),
        (Base::Scalar(scalar), []) => {
            let constants =
                seen.returned.iter().all(|v| matches!(v, Value::Integer(p) if p.constant().is_some()));
            let status = !scalar.dtype.is_float() && constants && !seen.returned.is_empty();
            Ok(if status { Returned::Status } else { Returned::Element(*scalar) })
        }
        _ => Err(format!("it returns `{}`, which no call can carry", returns.written)),
    }
}

fn role_of(constant: bool, used: Use, escaped: Option<&String>, leaf: &Leaf) -> (Role, Vec<String>) {
    let name = &leaf.written;
    if constant {
        return (
            Role::Varying,
            vec![
                "varying: it is const, so new in every call; \"constant\" if it stays, as weights do"
                    .to_owned(),
            ],
        );
    }
    if let Some(callee) = escaped.filter(|_| used == Use::Untouched) {
        let why = format!(
            "output: `{name}` is not const, and what `{callee}` does to it cannot be seen; \"inout\" if it reads it"
        );
        return (Role::Output, vec![why]);
    }
    match used {
        Use::Reads => {
            (Role::Varying, vec![format!("varying: `{name}` is not const, but the body only reads it")])
        }
        Use::Writes => {
            (Role::Output, vec!["output: every element is written, and none is read before that".to_owned()])
        }
        Use::ReadsFirst => {
            (Role::Inout, vec!["inout: the body reads elements before it writes them".to_owned()])
        }
        Use::WritesPart => (
            Role::Inout,
            vec!["inout: not every element is written in every call, so what was there stays".to_owned()],
        ),
        Use::MayReadFirst => (
            Role::Inout,
            vec!["inout: reads could not be shown to come after writes; \"output\" if they do".to_owned()],
        ),
        Use::Untouched => {
            (Role::Output, vec![format!("output: `{name}` is not const, and the body was not seen using it")])
        }
    }
}

/// How many elements are reached, if that is known.
fn reach(axes: &Axes) -> Option<Polynomial> {
    let known = axes.dense && axes.sure;
    known.then(|| axes.extents.iter().try_fold(Polynomial::from(1), |p, e| p.times(e.as_ref()?))).flatten()
}

/// `n` for `n - 1`: the inside of an array that has a border.
fn rounded_up(extent: &Polynomial) -> Option<Polynomial> {
    let sizes = extent.sizes();
    let whole = Polynomial::size(sizes.first().filter(|_| sizes.len() == 1)?);
    let less = whole.minus(extent)?.constant()?;
    (1..=8).contains(&less).then_some(whole)
}

type Shape = (Vec<Option<Polynomial>>, Option<Vec<Polynomial>>, Vec<String>);

fn shape_of(
    leaf: &Leaf,
    passed: Passed,
    axes: Option<&Axes>,
    declared: Option<&Vec<Option<Polynomial>>>,
) -> Shape {
    if passed == Passed::Reference {
        return (vec![Some(1.into())], None, Vec::new());
    }
    if passed == Passed::Span {
        let size = Polynomial::size(&format!("{}_size", leaf.name));
        return (vec![Some(size)], None, vec!["shape: as long as its span".to_owned()]);
    }
    if let Some(declared) = declared
        && declared.iter().all(Option::is_some)
        && !declared.is_empty()
    {
        return (declared.clone(), None, vec!["shape: as the prototype declares it".to_owned()]);
    }
    let Some(axes) = axes else { return (vec![None], None, Vec::new()) };
    let mut guesses = Vec::new();
    let shown: Vec<&str> = axes.needs.iter().map(|_| "").collect();
    if !axes.dense && shown.is_empty() {
        guesses.push("stride: only every so many elements are touched".to_owned());
    }
    for (room, used) in &axes.needs {
        guesses.push(format!(
            "stride: rows are {} apart and {} are used; every scenario keeps {} >= {}",
            room.text(),
            used.text(),
            room.text(),
            used.text()
        ));
    }
    if axes.extents.iter().all(Option::is_some) {
        guesses.push(
            if axes.sure {
                "shape: from the subscripts and the bounds of their loops"
            } else {
                "shape: from those subscripts that could be followed; others may reach further"
            }
            .to_owned(),
        );
    }
    let stride = (!axes.dense).then(|| axes.strides.clone());
    (axes.extents.clone(), stride, guesses)
}

/// Operations on elements, where every loop's length is known.
fn operations(seen: &Seen) -> Option<Polynomial> {
    let mut sum = Polynomial::default();
    for loops in &seen.operations {
        let one = loops.iter().try_fold(Polynomial::from(1), |p, l| p.times(&seen.ranges.trips(*l)?))?;
        sum = sum.plus(&one)?;
    }
    (sum.is_known() && !sum.is_zero()).then_some(sum)
}
