//! Extents that no subscript gives, and what inputs are filled with.

use super::{Plan, Tensor};
use crate::extent::Axes;
use crate::leaf::{Kind, Leaves, fit};
use crate::poly::Polynomial;
use crate::walk::Seen;
use kernelseek_core::case::Role;
use kernelseek_core::dtype::DType;
use std::collections::{BTreeMap, BTreeSet};

/// Sizes of the prototype that nothing has used yet, in order.
fn unused(plan: &Plan, leaves: &Leaves, seen: &Seen) -> Vec<String> {
    let mut used: BTreeSet<String> = seen.bounds.clone();
    for t in &plan.tensors {
        used.extend(t.shape.iter().chain(t.stride.iter().flatten()).flat_map(Polynomial::sizes));
    }
    leaves
        .all
        .iter()
        .filter(|l| l.same_as.is_none() && matches!(&l.kind, Kind::Number(s) if !s.dtype.is_float()))
        .filter(|l| !used.contains(&l.name) && !seen.tested.contains(&l.written))
        .map(|l| l.name.clone())
        .collect()
}

/// Gives every open extent a size.
pub(super) fn fill_in(plan: &mut Plan, leaves: &Leaves, seen: &Seen, axes: &BTreeMap<usize, Option<Axes>>) {
    for index in 0..plan.tensors.len() {
        let leaf = plan.tensors[index].leaf.unwrap_or(usize::MAX);
        let found = axes.get(&leaf).and_then(Option::as_ref);
        let open: Vec<usize> = (0..plan.tensors[index].shape.len())
            .filter(|a| plan.tensors[index].shape[*a].is_zero())
            .collect();
        for axis in open {
            let name = plan.tensors[index].name.clone();
            let bounded = found.and_then(|f| f.bounded_by.get(axis)).and_then(|b| b.first().copied());
            let indexed = found.and_then(|f| f.indexed_by.get(axis)).and_then(|b| b.first().copied());
            let (extent, guess) = if let Some(offsets) = bounded {
                in_rows(plan, offsets)
            } else if found.is_some() && (indexed.is_some() || found.is_some_and(|f| f.extents.len() > 1)) {
                match unused(plan, leaves, seen).first() {
                    Some(size) => (
                        Polynomial::size(size),
                        format!(
                            "shape: an index reaches into it; `{size}` is the size that nothing else uses"
                        ),
                    ),
                    None => {
                        let size = fresh(plan, leaves, &format!("{name}_rows"));
                        (
                            Polynomial::size(&size),
                            format!(
                                "shape: an index reaches into it and no size bounds it: `{size}` is a new field"
                            ),
                        )
                    }
                }
            } else {
                like_others(plan, leaves, seen, index)
            };
            let tensor = &mut plan.tensors[index];
            tensor.shape[axis] = extent;
            tensor.guesses.push(guess);
        }
    }
}

fn fresh(plan: &Plan, leaves: &Leaves, wanted: &str) -> String {
    let mut taken: Vec<String> = leaves.all.iter().map(|l| l.name.clone()).collect();
    taken.extend(plan.tensors.iter().flat_map(|t| t.shape.iter().flat_map(Polynomial::sizes)));
    fit(wanted, true, &taken)
}

/// As many as all rows together have.
fn in_rows(plan: &Plan, offsets: usize) -> (Polynomial, String) {
    let tensor = plan.tensors.iter().find(|t| t.leaf == Some(offsets));
    let rows = tensor.and_then(|t| t.shape.first()).and_then(|e| e.plus_number(-1));
    let total = rows.and_then(|r| r.times(&Polynomial::size("per_row")));
    let name = tensor.map_or("", |t| t.name.as_str());
    (
        total.unwrap_or_else(|| Polynomial::size("per_row")),
        format!("shape: `{name}` holds where each row begins; `per_row`, a new field, is how long rows are"),
    )
}

fn like_others(plan: &Plan, leaves: &Leaves, seen: &Seen, index: usize) -> (Polynomial, String) {
    let sizes: Vec<String> = leaves
        .all
        .iter()
        .filter(|l| l.same_as.is_none() && matches!(&l.kind, Kind::Number(s) if !s.dtype.is_float()))
        .filter(|l| seen.bounds.contains(&l.name))
        .map(|l| l.name.clone())
        .collect();
    let all: Vec<String> = leaves
        .all
        .iter()
        .filter(|l| l.same_as.is_none() && matches!(&l.kind, Kind::Number(s) if !s.dtype.is_float()))
        .filter(|l| !seen.tested.contains(&l.written) || seen.bounds.contains(&l.name))
        .map(|l| l.name.clone())
        .collect();
    let why = "shape: its subscripts could not be followed";
    let own = &plan.tensors[index];
    let sibling = plan
        .tensors
        .iter()
        .filter(|t| {
            t.leaf != own.leaf && t.scalar.dtype == own.scalar.dtype && t.shape.iter().all(|e| !e.is_zero())
        })
        .max_by_key(|t| t.elements().map_or(0, |e| e.degree()));
    match (sizes.as_slice(), all.as_slice(), sibling.and_then(|t| Some((t.name.clone(), t.elements()?)))) {
        ([one], _, _) | ([], [one], _) => (Polynomial::size(one), format!("{why}; `{one}` is the only size")),
        (_, _, Some((name, elements))) => (elements, format!("{why}; as many elements as `{name}` has")),
        (_, [], None) => {
            let size = fresh(plan, leaves, &format!("{}_len", own.name));
            (Polynomial::size(&size), format!("{why}, and there is no size: `{size}` is a new field"))
        }
        (_, some, None) => {
            let product = some
                .iter()
                .try_fold(Polynomial::from(1), |p, s| p.times(&Polynomial::size(s)))
                .unwrap_or_default();
            (product, format!("{why}; the product of all sizes is surely enough"))
        }
    }
}

/// What each input is filled with.
pub(super) fn generators(plan: &mut Plan, leaves: &Leaves, axes: &BTreeMap<usize, Option<Axes>>) {
    // Which extent an integer tensor points into, and which one only says where rows begin.
    let mut points: BTreeMap<usize, Polynomial> = BTreeMap::new();
    let mut offsets: BTreeSet<usize> = BTreeSet::new();
    for t in &plan.tensors {
        let Some(found) = t.leaf.and_then(|l| axes.get(&l)).and_then(Option::as_ref) else { continue };
        for (axis, (by, bounds)) in found.indexed_by.iter().zip(&found.bounded_by).enumerate() {
            for leaf in by {
                if let Some(extent) = t.shape.get(axis) {
                    points.entry(*leaf).or_insert_with(|| extent.clone());
                }
            }
            offsets.extend(bounds);
        }
    }
    let integers =
        |leaf: &Option<usize>| leaf.is_some_and(|l| matches!(leaves.all[l].kind, Kind::Elements { .. }));
    for t in plan.tensors.iter_mut().filter(|t| t.role != Role::Output) {
        let leaf = t.leaf.unwrap_or(usize::MAX);
        let (text, guess) = if offsets.contains(&leaf) && integers(&t.leaf) {
            let rows = t.shape.first().and_then(|e| e.plus_number(-1)).unwrap_or_default();
            (
                format!("{{ kind = \"row_offsets\", lengths = \"fill({}, per_row)\" }}", rows.text()),
                "generator: its elements bound a loop, so they are where rows begin; every row is `per_row` long"
                    .to_owned(),
            )
        } else if let Some(extent) = points.get(&leaf) {
            let last = extent.plus_number(-1).unwrap_or_default();
            (
                format!("{{ kind = \"integers\", lo = 0, hi = \"{}\" }}", last.text()),
                "generator: its elements index another tensor, so they stay below its extent".to_owned(),
            )
        } else {
            usual(t)
        };
        t.generator = Some(text);
        t.guesses.push(guess);
    }
}

fn usual(tensor: &Tensor) -> (String, String) {
    let integers = |lo: i64, hi: i64| {
        (
            format!("{{ kind = \"integers\", lo = {lo}, hi = {hi} }}"),
            format!("generator: integers from {lo} to {hi}; take the range that your data has"),
        )
    };
    match tensor.scalar.dtype {
        DType::Bool => {
            let elements = tensor.elements().unwrap_or_default().text();
            (
                format!("{{ kind = \"values\", values = \"range({elements}).map(i, i % 3 == 0 ? 1 : 0)\" }}"),
                "generator: every third is true, the same in every call".to_owned(),
            )
        }
        DType::U8 => integers(0, 255),
        DType::I8 => integers(-128, 127),
        _ if tensor.scalar.reinterpreted => integers(0, 1000),
        DType::I16 | DType::I32 | DType::I64 => integers(-1000, 1000),
        _ => (
            "{ kind = \"normal\", mean = 0.0, std = 1.0 }".to_owned(),
            "generator: a normal distribution; take one like your data".to_owned(),
        ),
    }
}
