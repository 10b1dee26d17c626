//! Which elements of a storage a strided view touches.

use crate::case::TensorCase;

/// A strided set of element indices.
#[derive(Debug, Clone)]
pub(super) struct View {
    offset: i128,
    /// (stride, extent) of the axes with more than one element.
    axes: Vec<(i128, i128)>,
    empty: bool,
}

impl View {
    pub(super) fn of(tensor: &TensorCase) -> Self {
        Self::new(tensor.offset, &tensor.shape, &tensor.stride)
    }

    fn new(offset: i64, shape: &[i64], stride: &[i64]) -> Self {
        let axes = shape.iter().zip(stride).filter(|(d, _)| **d > 1);
        Self {
            offset: i128::from(offset),
            axes: axes.map(|(&d, &s)| (i128::from(s), i128::from(d))).collect(),
            empty: shape.contains(&0),
        }
    }
}

/// One more than the last element's index in its storage, or `None` if it does not fit.
pub(super) fn end(tensor: &TensorCase) -> Option<usize> {
    let view = View::of(tensor);
    if view.empty {
        return Some(0);
    }
    let last =
        view.axes.iter().try_fold(view.offset, |at, (s, d)| at.checked_add((d - 1).checked_mul(*s)?))?;
    usize::try_from(last + 1).ok().filter(|n| *n <= 1 << 40)
}

/// The axis at which elements of one view may coincide, if any. A view passes if its strides nest: each axis
/// steps past everything that the axes with smaller strides reach.
pub(super) fn self_overlap(shape: &[i64], stride: &[i64]) -> Option<usize> {
    if shape.contains(&0) {
        return None;
    }
    let mut axes: Vec<(i128, i128, usize)> = shape
        .iter()
        .zip(stride)
        .enumerate()
        .filter(|(_, (d, _))| **d > 1)
        .map(|(axis, (d, s))| (i128::from(*s), i128::from(*d), axis))
        .collect();
    axes.sort_unstable();
    let mut reach = 0i128;
    for (stride, extent, axis) in axes {
        if stride <= reach {
            return Some(axis);
        }
        reach = reach.saturating_add((extent - 1).saturating_mul(stride));
    }
    None
}

/// Steps after which two views count as overlapping because nothing else was shown.
const MOST_STEPS: usize = 100_000;

/// Whether two views have an element in common, or cannot cheaply be shown to have none.
pub(super) fn may_overlap(a: &View, b: &View) -> bool {
    if a.empty || b.empty {
        return false;
    }
    // An element in common solves `sum(stride × t) = difference` with t in [0, extent) for an axis of `a` and
    // in (-extent, 0] for an axis of `b`; equal strides are one term.
    let mut terms: Vec<(i128, i128, i128)> = Vec::new();
    let signed = a.axes.iter().map(|(s, d)| (*s, 0, d - 1)).chain(b.axes.iter().map(|(s, d)| (*s, 1 - d, 0)));
    for (stride, lo, hi) in signed {
        match terms.iter_mut().find(|t| t.0 == stride) {
            Some(term) => {
                term.1 += lo;
                term.2 += hi;
            }
            None => terms.push((stride, lo, hi)),
        }
    }
    terms.sort_unstable_by_key(|term| std::cmp::Reverse(term.0));
    let mut steps = MOST_STEPS;
    solvable(&terms, b.offset - a.offset, &mut steps)
}

fn solvable(terms: &[(i128, i128, i128)], target: i128, steps: &mut usize) -> bool {
    if *steps == 0 {
        return true;
    }
    *steps -= 1;
    let Some(((stride, lo, hi), rest)) = terms.split_first() else { return target == 0 };
    if *stride == 0 {
        return solvable(rest, target, steps);
    }
    let least: i128 = rest.iter().map(|(s, lo, _)| s * lo).sum();
    let most: i128 = rest.iter().map(|(s, _, hi)| s * hi).sum();
    let from = (target - most).div_euclid(*stride) + i128::from((target - most).rem_euclid(*stride) > 0);
    let to = (target - least).div_euclid(*stride);
    let mut t = from.max(*lo);
    while t <= to.min(*hi) {
        if solvable(rest, target - t * stride, steps) {
            return true;
        }
        t += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn elements(offset: i64, shape: &[i64], stride: &[i64]) -> Vec<i64> {
        let mut all = vec![offset];
        for (&d, &s) in shape.iter().zip(stride) {
            all = all.iter().flat_map(|&x| (0..d).map(move |i| x + i * s)).collect();
        }
        all
    }

    #[test]
    fn packed_views_are_disjoint() {
        // q, k, v of one (B, S, 3, H, D) tensor.
        let (b, s, h, d) = (2, 5, 3, 4);
        let view = |i: i64| View::new(i * h * d, &[b, s, h, d], &[s * 3 * h * d, 3 * h * d, d, 1]);
        assert!(!may_overlap(&view(0), &view(1)));
        assert!(!may_overlap(&view(2), &view(1)));
        assert!(may_overlap(&view(1), &view(1)));
    }

    fn strided() -> impl Strategy<Value = (i64, Vec<i64>, Vec<i64>)> {
        (0i64..12, proptest::collection::vec((0i64..4, 0i64..14), 0..4))
            .prop_map(|(o, axes)| (o, axes.iter().map(|a| a.0).collect(), axes.iter().map(|a| a.1).collect()))
    }

    proptest! {
        #[test]
        fn overlap_of_two_views_is_exact(a in strided(), b in strided()) {
            let (x, y) = (View::new(a.0, &a.1, &a.2), View::new(b.0, &b.1, &b.2));
            let left: BTreeSet<i64> = elements(a.0, &a.1, &a.2).into_iter().collect();
            let common = elements(b.0, &b.1, &b.2).iter().any(|e| left.contains(e));
            prop_assert_eq!(may_overlap(&x, &y), common);
            prop_assert_eq!(may_overlap(&y, &x), common);
        }

        #[test]
        fn nested_strides_never_repeat_an_element(a in strided()) {
            let all = elements(0, &a.1, &a.2);
            let distinct: BTreeSet<i64> = all.iter().copied().collect();
            if self_overlap(&a.1, &a.2).is_none() {
                prop_assert_eq!(all.len(), distinct.len());
            }
        }
    }
}
