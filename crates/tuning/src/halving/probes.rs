//! The few scenarios that stand for all in the first rungs.

use crate::known::Spot;
use std::collections::BTreeSet;

/// Scenarios that the first rungs measure.
const PROBES: usize = 4;

/// Up to four spots that lie far from each other, each feature on a scale of its own. All of them if there are no more.
pub(super) fn probes(spots: &[Spot]) -> Vec<usize> {
    if spots.len() <= PROBES {
        return (0..spots.len()).collect();
    }
    let features = spots[0].values.len();
    // Logarithms: from 16 to 32 is as far as from 1024 to 2048.
    let scaled: Vec<Vec<f64>> =
        spots.iter().map(|s| s.values.iter().map(|v| v.signum() * v.abs().ln_1p()).collect()).collect();
    let span: Vec<f64> = (0..features)
        .map(|f| {
            let all = scaled.iter().map(|s| s[f]);
            let (lo, hi) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
            (hi - lo).max(1e-12)
        })
        .collect();
    let distance = |a: usize, b: usize| -> f64 {
        (0..features).map(|f| ((scaled[a][f] - scaled[b][f]) / span[f]).powi(2)).sum()
    };
    let sum = |i: usize| (0..features).map(|f| scaled[i][f] / span[f]).sum::<f64>();
    let first = (0..spots.len()).min_by(|a, b| sum(*a).total_cmp(&sum(*b))).unwrap_or(0);
    let mut chosen = BTreeSet::from([first]);
    while chosen.len() < PROBES {
        let nearest = |i: usize| chosen.iter().map(|c| distance(i, *c)).fold(f64::INFINITY, f64::min);
        let next = (0..spots.len())
            .filter(|i| !chosen.contains(i))
            .max_by(|a, b| nearest(*a).total_cmp(&nearest(*b)).then(b.cmp(a)));
        let Some(next) = next else { break };
        chosen.insert(next);
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_among_the_probes() {
        let spots: Vec<Spot> =
            (0..12).map(|i| Spot { id: format!("s{i}"), values: vec![f64::from(1 << i)] }).collect();
        let probes = probes(&spots);
        assert_eq!(probes.len(), 4);
        assert!(probes.contains(&0) && probes.contains(&11), "{probes:?}");
        assert_eq!(super::probes(&spots[..3]), [0, 1, 2]);
        let same: Vec<Spot> = (0..6).map(|i| Spot { id: format!("s{i}"), values: vec![] }).collect();
        assert_eq!(super::probes(&same).len(), 4);
    }
}
