//! Who stays after a rung.

use crate::estimate::Estimate;
use std::collections::BTreeMap;

/// One arm after a rung.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contender<'a> {
    pub(super) arm: usize,
    pub(super) ratios: &'a BTreeMap<String, Estimate>,
}

/// How near an arm comes to the best of a scenario, in the scenario where it comes nearest: 0 is the best somewhere. An
/// arm that is best in one scenario may be routed there, however bad it is in the others.
pub(super) fn score(ratios: &BTreeMap<String, Estimate>, best: &BTreeMap<String, Estimate>) -> f64 {
    ratios.iter().filter_map(|(s, e)| Some(e.log - best.get(s)?.log)).fold(f64::NEG_INFINITY, f64::max)
}

/// The best of each scenario.
pub(super) fn best<'a>(
    all: impl Iterator<Item = &'a BTreeMap<String, Estimate>>,
) -> BTreeMap<String, Estimate> {
    let mut best: BTreeMap<String, Estimate> = BTreeMap::new();
    for (scenario, e) in all.flatten() {
        let known = best.entry(scenario.clone()).or_insert(*e);
        if e.log > known.log {
            *known = *e;
        }
    }
    best
}

/// The arms that are dropped, with the reason. The better half stays, and so does everything that no scenario tells apart
/// from its best; what is told slower than the defaults in every scenario goes, whichever half it is in.
pub(super) fn drops(
    default: &BTreeMap<String, Estimate>,
    arms: &[Contender<'_>],
) -> Vec<(usize, &'static str)> {
    let best = best(arms.iter().map(|a| a.ratios).chain([default]));
    let mut ranked: Vec<(f64, Contender<'_>)> = arms.iter().map(|a| (score(a.ratios, &best), *a)).collect();
    ranked.sort_by(|(x, a), (y, b)| y.total_cmp(x).then(a.arm.cmp(&b.arm)));
    let half = arms.len().div_ceil(2);
    let mut dropped = Vec::new();
    for (place, (_, arm)) in ranked.iter().enumerate() {
        let worse = |(s, e): (&String, &Estimate)| default.get(s).is_some_and(|d| d.above(e));
        let near = |(s, e): (&String, &Estimate)| best.get(s).is_some_and(|b| !b.above(e));
        if arm.ratios.is_empty() {
            dropped.push((arm.arm, "nothing could be timed"));
        } else if arm.ratios.iter().all(worse) {
            dropped.push((arm.arm, "slower than the defaults in every scenario"));
        } else if place >= half && !arm.ratios.iter().any(near) {
            dropped.push((arm.arm, "not among the better half, nowhere near the best"));
        }
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(rows: &[(&str, f64)], half: f64) -> BTreeMap<String, Estimate> {
        rows.iter().map(|(s, x)| ((*s).to_owned(), Estimate { log: x.ln(), down: half, up: half })).collect()
    }

    #[test]
    fn the_better_half_stays_and_noise_drops_nobody() {
        let default = ratios(&[("a", 1.0), ("b", 1.0)], 0.02);
        let all = [
            ratios(&[("a", 1.5), ("b", 0.5)], 0.02),
            ratios(&[("a", 0.5), ("b", 1.5)], 0.02),
            ratios(&[("a", 1.1), ("b", 1.1)], 0.02),
            ratios(&[("a", 1.05), ("b", 1.2)], 0.02),
            ratios(&[("a", 0.8), ("b", 0.8)], 0.02),
        ];
        let arms: Vec<Contender<'_>> =
            all.iter().enumerate().map(|(i, ratios)| Contender { arm: i + 1, ratios }).collect();
        let gone: Vec<usize> = drops(&default, &arms).iter().map(|(a, _)| *a).collect();
        assert_eq!(gone, [3, 5], "the specialists and the better generalist stay");
        let noisy: Vec<_> = all
            .iter()
            .map(|r| r.iter().map(|(s, e)| (s.clone(), Estimate { down: 0.9, up: 0.9, ..*e })).collect())
            .collect::<Vec<BTreeMap<_, _>>>();
        let arms: Vec<Contender<'_>> =
            noisy.iter().enumerate().map(|(i, ratios)| Contender { arm: i + 1, ratios }).collect();
        assert_eq!(drops(&default, &arms), []);
    }

    #[test]
    fn what_is_slower_everywhere_goes_even_from_the_better_half() {
        let default = ratios(&[("a", 1.0)], 0.02);
        let (slow, slower) = (ratios(&[("a", 0.8)], 0.02), ratios(&[("a", 0.5)], 0.02));
        let arms = [Contender { arm: 1, ratios: &slow }, Contender { arm: 2, ratios: &slower }];
        assert_eq!(drops(&default, &arms).len(), 2);
    }
}
