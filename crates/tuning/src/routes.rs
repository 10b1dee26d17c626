//! From measurements to routes: in each scenario the best assignment, ties keep the default, as few assignments as do.

use crate::arms::Assignment;
use crate::estimate::Estimate;
use crate::known::{Feature, Spot};
use crate::tree::{self, Tree};
use std::collections::BTreeMap;

/// An assignment this much slower than the best of a scenario does not stand in for it, told apart or not.
const NEAR: f64 = 0.03;

/// Which assignment a call takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    /// What the tree asks about.
    pub features: Vec<Feature>,
    /// Its classes are indices into `assignments`.
    pub tree: Tree,
    /// The assignments in use.
    pub assignments: Vec<Assignment>,
}

impl Routes {
    /// The routes that give each spot the assignment chosen for it.
    #[must_use]
    pub fn new(features: &[Feature], spots: &[Spot], arms: &[Assignment], chosen: &[usize]) -> Self {
        let pairs: Vec<(&Spot, usize)> = spots.iter().zip(chosen.iter().copied()).collect();
        let grown = if pairs.is_empty() {
            Tree::Leaf { class: 0, spots: Vec::new() }
        } else {
            tree::grow(features, &pairs)
        };
        let mut used: Vec<usize> = chosen.to_vec();
        used.sort_unstable();
        used.dedup();
        let place = |class: usize| used.iter().position(|u| *u == class).unwrap_or(0);
        let assignments = used.iter().filter_map(|u| arms.get(*u).cloned()).collect();
        Self { features: features.to_vec(), tree: grown.map(&place), assignments }
    }

    /// The assignment of a call with these feature values.
    #[must_use]
    pub fn assignment(&self, values: &[f64]) -> Option<&Assignment> {
        self.assignments.get(self.tree.class(&self.features, values))
    }
}

/// The arm of each spot. Arm 0 is the defaults; `measured` holds each arm's estimates by scenario id.
///
/// An arm is taken only where it is above the defaults beyond what the intervals leave open. Of the arms that are not
/// told apart from the best of a scenario and close to it, those are taken that serve the most scenarios.
#[must_use]
pub fn choose(spots: &[Spot], measured: &[BTreeMap<String, Estimate>]) -> Vec<usize> {
    let groups = groups(spots);
    let acceptable: Vec<Vec<(usize, f64)>> = groups.iter().map(|g| acceptable(spots, g, measured)).collect();
    let mut chosen = vec![0; spots.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, arms) in acceptable.iter().enumerate() {
        if !arms.is_empty() {
            open.push(index);
        }
    }
    while !open.is_empty() {
        let mut best: Option<(usize, f64, usize)> = None;
        for arm in 1..measured.len() {
            let served: Vec<f64> = open
                .iter()
                .filter_map(|g| acceptable[*g].iter().find(|(a, _)| *a == arm).map(|(_, log)| *log))
                .collect();
            let (count, sum) = (served.len(), served.iter().sum::<f64>());
            let better = best.is_none_or(|(most, total, _)| count > most || (count == most && sum > total));
            if count > 0 && better {
                best = Some((count, sum, arm));
            }
        }
        let Some((.., arm)) = best else { break };
        open.retain(|g| {
            let serves = acceptable[*g].iter().any(|(a, _)| *a == arm);
            if serves {
                groups[*g].iter().for_each(|s| chosen[*s] = arm);
            }
            !serves
        });
    }
    chosen
}

/// The best single arm for all spots: above the defaults in the geometric mean beyond what the intervals leave open,
/// measured in every scenario. 0 if there is none.
#[must_use]
pub fn choose_one(spots: &[Spot], measured: &[BTreeMap<String, Estimate>]) -> usize {
    let mean = |arm: &BTreeMap<String, Estimate>| {
        let all: Option<Vec<Estimate>> = spots.iter().map(|s| arm.get(&s.id).copied()).collect();
        Estimate::mean(&all?)
    };
    let Some(default) = measured.first().and_then(mean) else { return 0 };
    let better = measured.iter().enumerate().skip(1).filter_map(|(i, m)| Some((i, mean(m)?)));
    better
        .filter(|(_, e)| e.above(&default))
        .max_by(|(_, a), (_, b)| a.log.total_cmp(&b.log))
        .map_or(0, |(i, _)| i)
}

/// Spots that no call can tell apart belong together.
fn groups(spots: &[Spot]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, spot) in spots.iter().enumerate() {
        match groups.iter_mut().find(|g| spots[g[0]].values == spot.values) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// The arms that may serve a group, with their log-ratios over the defaults; none if the defaults stay.
fn acceptable(spots: &[Spot], group: &[usize], measured: &[BTreeMap<String, Estimate>]) -> Vec<(usize, f64)> {
    let mean = |arm: &BTreeMap<String, Estimate>| {
        let all: Option<Vec<Estimate>> = group.iter().map(|s| arm.get(&spots[*s].id).copied()).collect();
        Estimate::mean(&all?)
    };
    let Some(default) = measured.first().and_then(mean) else { return Vec::new() };
    let arms: Vec<(usize, Estimate)> =
        measured.iter().enumerate().skip(1).filter_map(|(i, m)| Some((i, mean(m)?))).collect();
    let Some((_, best)) = arms.iter().max_by(|(_, a), (_, b)| a.log.total_cmp(&b.log)) else {
        return Vec::new();
    };
    arms.iter()
        .filter(|(_, e)| e.above(&default) && !best.above(e) && e.log >= best.log - NEAR)
        .map(|(i, e)| (*i, e.log - default.log))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::FeatureKind;
    use kernelseek_core::kernel_file::Choice;
    use proptest::prelude::*;

    fn e(point: f64, half: f64) -> Estimate {
        Estimate { log: point.ln(), down: half, up: half }
    }

    fn spot(id: &str, n: f64) -> Spot {
        Spot { id: id.into(), values: vec![n] }
    }

    fn table(rows: &[&[(&str, f64)]], half: f64) -> Vec<BTreeMap<String, Estimate>> {
        rows.iter().map(|r| r.iter().map(|(s, x)| ((*s).to_owned(), e(*x, half))).collect()).collect()
    }

    #[test]
    fn each_scenario_takes_its_best_and_ties_keep_the_default() {
        let spots = [spot("small", 16.0), spot("middle", 64.0), spot("large", 1024.0)];
        let measured = table(
            &[
                &[("small", 1.0), ("middle", 1.0), ("large", 1.0)],
                &[("small", 1.5), ("middle", 1.02), ("large", 0.6)],
                &[("small", 0.7), ("middle", 1.01), ("large", 1.8)],
            ],
            0.03,
        );
        assert_eq!(choose(&spots, &measured), [1, 0, 2]);
        assert_eq!(choose_one(&spots, &measured), 2);
        let wide = table(&[&[("small", 1.0)], &[("small", 1.5)]], 0.3);
        assert_eq!(choose(&spots[..1], &wide), [0], "what the intervals leave open is a tie");
    }

    #[test]
    fn few_assignments_are_preferred_to_noise() {
        let spots = [spot("a", 1.0), spot("b", 2.0), spot("c", 3.0)];
        let measured = table(
            &[
                &[("a", 1.0), ("b", 1.0), ("c", 1.0)],
                &[("a", 1.50), ("b", 1.49), ("c", 1.50)],
                &[("a", 1.49), ("b", 1.50), ("c", 1.2)],
            ],
            0.03,
        );
        assert_eq!(choose(&spots, &measured), [1, 1, 1]);
    }

    #[test]
    fn what_was_not_tried_somewhere_is_not_routed_there_and_calls_that_look_alike_stay_together() {
        let spots = [spot("a", 1.0), spot("b", 2.0), spot("twin", 2.0)];
        let measured = table(
            &[
                &[("a", 1.0), ("b", 1.0), ("twin", 1.0)],
                &[("b", 2.0), ("twin", 0.9)],
                &[("a", 1.5), ("b", 3.0)],
            ],
            0.02,
        );
        assert_eq!(choose(&spots, &measured), [2, 1, 1]);
        assert_eq!(choose_one(&spots, &measured), 0);
    }

    fn one(v: i64) -> Assignment {
        Assignment::from([("tile".to_owned(), Choice::Int(v))])
    }

    proptest! {
        #[test]
        fn routes_are_exact_on_what_was_swept_and_never_take_what_is_told_worse(
            points in proptest::collection::vec(proptest::collection::vec(0.5f64..2.0, 6), 1..6),
            half in 0.0f64..0.2,
        ) {
            let spots: Vec<Spot> = (0..6).map(|i| spot(&format!("s{i}"), f64::from(1 << i))).collect();
            let measured: Vec<BTreeMap<String, Estimate>> = points
                .iter()
                .map(|p| spots.iter().zip(p).map(|(s, x)| (s.id.clone(), e(*x, half))).collect())
                .collect();
            let chosen = choose(&spots, &measured);
            let arms: Vec<Assignment> = (0..points.len()).map(|i| one(i as i64)).collect();
            let features = [Feature { expression: "call->n".into(), kind: FeatureKind::Int }];
            let routes = Routes::new(&features, &spots, &arms, &chosen);
            for (s, c) in spots.iter().zip(&chosen) {
                prop_assert_eq!(routes.assignment(&s.values), Some(&arms[*c]));
                let (taken, default) = (measured[*c][&s.id], measured[0][&s.id]);
                prop_assert!(*c == 0 || taken.above(&default));
                let best = measured.iter().map(|m| m[&s.id]).max_by(|a, b| a.log.total_cmp(&b.log)).unwrap();
                prop_assert!(*c == 0 || !best.above(&taken));
            }
        }
    }
}
