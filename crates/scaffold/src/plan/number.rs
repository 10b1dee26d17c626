//! The numbers of the prototype: sizes, pitches, flags, and floating-point parameters.

use super::{Attribute, Field, Plan, Purpose};
use crate::extent::Axes;
use crate::leaf::{Kind, Leaves};
use crate::poly::Polynomial;
use crate::walk::Seen;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn numbers(plan: &mut Plan, leaves: &Leaves, seen: &Seen, axes: &BTreeMap<usize, Option<Axes>>) {
    let mut sizes: BTreeSet<String> = seen.bounds.clone();
    let mut pitches: BTreeSet<String> = BTreeSet::new();
    for t in &plan.tensors {
        sizes.extend(t.shape.iter().flat_map(Polynomial::sizes));
        pitches.extend(t.stride.iter().flatten().flat_map(Polynomial::sizes));
    }
    // What the walk could not follow is sized all the same.
    let per_row = plan.tensors.iter().any(|t| t.shape.iter().any(|e| e.sizes().contains("per_row")));
    let mut multiples: BTreeMap<String, i64> = BTreeMap::new();
    for (step, length) in axes.values().flatten().flat_map(|a| &a.even) {
        // A loop over n - 1 elements in steps says nothing simple about n.
        let names = length.sizes();
        if let (1, Some(name)) = (names.len(), names.first())
            && *length == Polynomial::size(name)
        {
            let known = multiples.entry(name.clone()).or_insert(1);
            *known = least_common(*known, *step);
        }
    }
    let mut limits: BTreeMap<String, i64> = BTreeMap::new();
    for (extent, at) in &seen.limits {
        let Some(high) = seen.ranges.extreme(at, crate::ranges::End::High) else { continue };
        for name in high.sizes() {
            let rest = high.minus(&Polynomial::size(&name)).and_then(|r| r.constant());
            if let Some(rest) = rest {
                let largest = extent - 1 - rest;
                limits.entry(name).and_modify(|l| *l = (*l).min(largest)).or_insert(largest);
            }
        }
    }
    for leaf in leaves.all.iter().filter(|l| l.same_as.is_none()) {
        let Kind::Number(scalar) = &leaf.kind else { continue };
        let name = leaf.name.clone();
        if scalar.dtype.is_float() {
            let (value, guess) = real(&leaf.written);
            plan.attributes.push(Attribute { name, real: true, value, guesses: vec![guess] });
            continue;
        }
        if per_row && name.to_lowercase().contains("nnz") && !sizes.contains(&name) {
            let total =
                plan.tensors.iter().find_map(|t| t.shape.iter().find(|e| e.sizes().contains("per_row")));
            let value = total.map_or_else(|| "per_row".to_owned(), Polynomial::text);
            let guess = format!("`{name}` by its name: the elements of all rows together");
            plan.attributes.push(Attribute { name, real: false, value, guesses: vec![guess] });
            continue;
        }
        let mut guesses = Vec::new();
        let purpose = if sizes.contains(&name) {
            Purpose::Size
        } else if pitches.contains(&name) {
            guesses.push("the distance of rows in elements".to_owned());
            Purpose::Pitch
        } else if seen.tested.contains(&leaf.written) {
            guesses
                .push("it is only compared: a flag, 0 or 1; put other values into the scenarios".to_owned());
            Purpose::Flag
        } else {
            guesses.push("neither a size nor a flag as far as could be seen: 1 everywhere".to_owned());
            Purpose::Number
        };
        let multiple = multiples.get(&name).copied().unwrap_or(1);
        if multiple > 1 {
            guesses.push(format!(
                "a loop counts in steps of {multiple} without a rest: multiples of {multiple} only"
            ));
        }
        let max = limits.get(&name).copied().filter(|l| *l > 0 && purpose == Purpose::Size);
        if let Some(max) = max {
            guesses.push(format!("a local array holds no more than {max}"));
        }
        if leaves.all.iter().any(|l| l.same_as.is_some() && l.name == name) {
            guesses.push("taken to be the same in every struct that has it".to_owned());
        }
        let min = match purpose {
            Purpose::Size | Purpose::Pitch => multiple,
            Purpose::Flag | Purpose::Number => 0,
        };
        plan.fields.push(Field { name: name.clone(), purpose, min, max, multiple, guesses });
        plan.attributes.push(Attribute { name: name.clone(), real: false, value: name, guesses: Vec::new() });
    }
    // Sizes that no parameter carries: lengths of spans, and what was made up for open extents.
    let known: BTreeSet<String> = plan.fields.iter().map(|f| f.name.clone()).collect();
    let carried: BTreeSet<String> = plan.attributes.iter().map(|a| a.name.clone()).collect();
    for name in sizes.union(&pitches).filter(|n| !known.contains(*n) && !carried.contains(*n)) {
        let guesses = vec![if name.ends_with("_size") {
            "the length of a std::span".to_owned()
        } else {
            "no parameter carries it: it only sizes what the body indexes".to_owned()
        }];
        plan.fields.push(Field {
            name: name.clone(),
            purpose: Purpose::Size,
            min: 1,
            max: None,
            multiple: 1,
            guesses,
        });
    }
}

/// A value for a floating-point parameter, by its name. It is exact in a float, so that wider copies get the same, and
/// has several bits, so that products round.
fn real(name: &str) -> (String, String) {
    let lower = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    let is = |words: &[&str]| words.iter().any(|w| lower == *w || lower.starts_with(&format!("{w}_")));
    let value = if has(&["eps"]) {
        "1e-5"
    } else if is(&["lo", "low", "min", "lower", "floor"]) {
        // Bounds that are equal leave nothing to compute.
        "-1.0625"
    } else if is(&["hi", "high", "max", "upper", "ceil"]) {
        "1.1875"
    } else if has(&["alpha"]) {
        "1.3125"
    } else if has(&["beta", "momentum", "decay"]) {
        "0.8125"
    } else if has(&["scale", "inv", "dt", "rate", "lr"]) {
        "0.15625"
    } else {
        "0.6875"
    };
    (value.to_owned(), "a floating-point parameter: the value is made up, take one that you use".to_owned())
}

fn least_common(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    if x == 0 { a } else { (a / x).saturating_mul(b) }
}
