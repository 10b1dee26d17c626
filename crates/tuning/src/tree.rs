//! A small decision tree that is exact on the spots it was grown from.

use crate::known::{Feature, FeatureKind, Spot};
use std::collections::BTreeMap;

/// A tree over classes.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Everything that comes here is of one class.
    Leaf {
        /// The class.
        class: usize,
        /// The spots that come here.
        spots: Vec<String>,
    },
    /// A question about one feature.
    Split {
        /// Index of the feature.
        feature: usize,
        /// At most this, or for an element type exactly this, goes to `yes`.
        threshold: f64,
        /// Where it holds.
        yes: Box<Self>,
        /// Where it does not.
        no: Box<Self>,
    },
}

/// Grows a tree. Spots whose features are all equal must be of one class; the first decides otherwise.
#[must_use]
pub fn grow(features: &[Feature], spots: &[(&Spot, usize)]) -> Tree {
    let leaf = || Tree::Leaf {
        class: spots.first().map_or(0, |(_, c)| *c),
        spots: spots.iter().map(|(s, _)| s.id.clone()).collect(),
    };
    if spots.iter().all(|(_, c)| *c == spots[0].1) {
        return leaf();
    }
    let mut best: Option<(f64, usize, f64)> = None;
    for (index, feature) in features.iter().enumerate() {
        for threshold in thresholds(feature, index, spots) {
            let (yes, no): (Vec<_>, Vec<_>) =
                spots.iter().partition(|(s, _)| holds(feature, threshold, s.values[index]));
            let impurity = impurity(&yes) + impurity(&no);
            // The first of equals stays: attributes before shapes, small thresholds before large ones.
            if best.is_none_or(|(least, ..)| impurity < least - 1e-9) {
                best = Some((impurity, index, threshold));
            }
        }
    }
    let Some((_, feature, threshold)) = best else { return leaf() };
    let (yes, no): (Vec<_>, Vec<_>) =
        spots.iter().copied().partition(|(s, _)| holds(&features[feature], threshold, s.values[feature]));
    Tree::Split { feature, threshold, yes: Box::new(grow(features, &yes)), no: Box::new(grow(features, &no)) }
}

/// Whether a value goes to `yes`.
#[must_use]
pub fn holds(feature: &Feature, threshold: f64, value: f64) -> bool {
    match feature.kind {
        FeatureKind::Dtype => value == threshold,
        FeatureKind::Int | FeatureKind::Float => value <= threshold,
    }
}

/// Where a feature can be split: between neighbours, at their geometric mean, since sizes spread over orders of
/// magnitude and a route must serve what lies between.
fn thresholds(feature: &Feature, index: usize, spots: &[(&Spot, usize)]) -> Vec<f64> {
    let mut values: Vec<f64> = spots.iter().map(|(s, _)| s.values[index]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() < 2 {
        return Vec::new();
    }
    if feature.kind == FeatureKind::Dtype {
        return values;
    }
    values.windows(2).map(|w| between(feature.kind, w[0], w[1])).collect()
}

/// A number that is at least `a` and less than `b`.
fn between(kind: FeatureKind, a: f64, b: f64) -> f64 {
    let mean = if a > 0.0 { (a * b).sqrt() } else { a / 2.0 + b / 2.0 };
    let mean = if kind == FeatureKind::Int { mean.floor() } else { mean };
    if mean >= a && mean < b { mean } else { a }
}

/// Entropy times the number of spots.
fn impurity(spots: &[&(&Spot, usize)]) -> f64 {
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    for (_, class) in spots {
        *counts.entry(*class).or_default() += 1.0;
    }
    let n = spots.len() as f64;
    counts.values().map(|c| -c * (c / n).ln()).sum()
}

impl Tree {
    /// The class of a call with these feature values.
    #[must_use]
    pub fn class(&self, features: &[Feature], values: &[f64]) -> usize {
        match self {
            Self::Leaf { class, .. } => *class,
            Self::Split { feature, threshold, yes, no } => {
                let side = if holds(&features[*feature], *threshold, values[*feature]) { yes } else { no };
                side.class(features, values)
            }
        }
    }

    /// The tree with other classes; splits whose sides then agree vanish.
    #[must_use]
    pub fn map(&self, to: &dyn Fn(usize) -> usize) -> Self {
        match self {
            Self::Leaf { class, spots } => Self::Leaf { class: to(*class), spots: spots.clone() },
            Self::Split { feature, threshold, yes, no } => match (yes.map(to), no.map(to)) {
                (Self::Leaf { class, spots }, Self::Leaf { class: other, spots: more }) if class == other => {
                    Self::Leaf { class, spots: [spots, more].concat() }
                }
                (yes, no) => Self::Split {
                    feature: *feature,
                    threshold: *threshold,
                    yes: Box::new(yes),
                    no: Box::new(no),
                },
            },
        }
    }

    /// Number of leaves.
    #[must_use]
    pub fn leaves(&self) -> usize {
        match self {
            Self::Leaf { .. } => 1,
            Self::Split { yes, no, .. } => yes.leaves() + no.leaves(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feature(kind: FeatureKind) -> Feature {
        Feature { expression: "call->n".into(), kind }
    }

    fn spot(values: &[f64]) -> Spot {
        Spot { id: format!("{values:?}"), values: values.to_vec() }
    }

    #[test]
    fn a_threshold_is_a_geometric_mean_and_never_reaches_the_larger_side() {
        for (kind, a, b, t) in [
            (FeatureKind::Int, 64.0, 1024.0, 256.0),
            (FeatureKind::Int, 1.0, 2.0, 1.0),
            (FeatureKind::Int, 0.0, 1.0, 0.0),
            (FeatureKind::Int, -8.0, 8.0, 0.0),
            (FeatureKind::Float, 0.25, 1.0, 0.5),
            (FeatureKind::Float, 1.0, 1.0 + f64::EPSILON, 1.0),
        ] {
            assert_eq!(between(kind, a, b), t, "{a} {b}");
        }
    }

    #[test]
    fn the_feature_that_separates_is_found() {
        let features = [feature(FeatureKind::Int), feature(FeatureKind::Int)];
        let all = [spot(&[1.0, 9.0]), spot(&[2.0, 1.0]), spot(&[3.0, 8.0]), spot(&[4.0, 2.0])];
        let classes = [0, 1, 0, 1];
        let pairs: Vec<(&Spot, usize)> = all.iter().zip(classes).collect();
        let tree = grow(&features, &pairs);
        assert_eq!(tree.leaves(), 2);
        assert!(matches!(tree, Tree::Split { feature: 1, threshold: 4.0, .. }), "{tree:?}");
        assert_eq!(tree.map(&|_| 3).leaves(), 1, "sides that agree are one");
    }

    proptest! {
        #[test]
        fn a_tree_is_exact_on_what_it_was_grown_from(
            rows in proptest::collection::vec((proptest::collection::vec(0i64..40, 3), 0usize..4), 1..40),
        ) {
            let features = [FeatureKind::Int, FeatureKind::Float, FeatureKind::Dtype].map(feature);
            let mut seen: Vec<(Spot, usize)> = Vec::new();
            for (values, class) in rows {
                let s = spot(&values.iter().map(|v| *v as f64).collect::<Vec<_>>());
                if !seen.iter().any(|(k, _)| k.values == s.values) {
                    seen.push((s, class));
                }
            }
            let pairs: Vec<(&Spot, usize)> = seen.iter().map(|(s, c)| (s, *c)).collect();
            let tree = grow(&features, &pairs);
            for (s, class) in &seen {
                prop_assert_eq!(tree.class(&features, &s.values), *class);
            }
            prop_assert!(tree.leaves() <= seen.len());
        }
    }
}
