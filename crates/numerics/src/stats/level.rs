//! Taking out of paired log-ratios what the places of the two sides make of them.

/// Fewest instances of either arrangement from which the effect of the places is fitted.
const OF_EITHER: usize = 2;

/// Fewest instances from which an interval gains by it: with four, the degree of freedom that the fit costs doubles the width of
/// an interval at 99 %, with six it takes a seventh.
pub const LEAST_FOR_INTERVALS: usize = 6;

/// Log-ratios without the effect of the places.
#[derive(Debug, Clone, PartialEq)]
pub struct Leveled {
    /// One vector per instance, as they came.
    pub instances: Vec<Vec<f64>>,
    /// Parameters that were fitted: 1 where the effect was taken out, 0 where nothing was changed.
    pub fitted: usize,
}

/// The two sides of a pair work in two pieces of memory, and which of them is whose changes from instance to instance
/// (`swapped`). A piece of memory may be the quicker one for a kernel: that adds to the logarithm of the ratio in one
/// arrangement what it takes away in the other, and has nothing to do with the candidate. Half of the difference between the
/// two arrangements' mean medians is that effect; it is taken out of every pair.
///
/// Nothing is changed where an instance has no word on its arrangement, or there are fewer than `least` instances or two of
/// either arrangement.
#[must_use]
pub fn level(instances: Vec<Vec<f64>>, swapped: &[bool], least: usize) -> Leveled {
    let as_they_are = |instances| Leveled { instances, fitted: 0 };
    if instances.len() != swapped.len() {
        return as_they_are(instances);
    }
    let mean = |which: bool| {
        let of = instances.iter().zip(swapped).filter(|(pairs, s)| **s == which && !pairs.is_empty());
        let medians: Vec<f64> = of.filter_map(|(pairs, _)| super::median(pairs)).collect();
        (medians.len(), medians.iter().sum::<f64>() / medians.len().max(1) as f64)
    };
    let ((straight, own), (crossed, other)) = (mean(false), mean(true));
    if straight + crossed < least || straight.min(crossed) < OF_EITHER {
        return as_they_are(instances);
    }
    let effect = 0.5 * (own - other);
    let shift = |(pairs, swapped): (Vec<f64>, &bool)| {
        let by = if *swapped { effect } else { -effect };
        pairs.into_iter().map(|x| x + by).collect()
    };
    Leveled { instances: instances.into_iter().zip(swapped).map(shift).collect(), fitted: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALTERNATING: [bool; 6] = [false, true, false, true, false, true];

    #[test]
    fn what_changes_sign_with_the_places_is_taken_out() {
        let of = |effect: f64| -> Vec<Vec<f64>> {
            ALTERNATING.iter().map(|s| vec![0.3 + if *s { -effect } else { effect }; 3]).collect()
        };
        for effect in [0.0, 0.01, -0.2] {
            let leveled = level(of(effect), &ALTERNATING, 6);
            assert_eq!(leveled.fitted, 1);
            assert!(leveled.instances.iter().flatten().all(|x| (x - 0.3).abs() < 1e-12), "{leveled:?}");
        }
    }

    #[test]
    fn too_few_of_either_arrangement_are_left_alone() {
        let pairs = |n: usize| -> Vec<Vec<f64>> { (0..n).map(|i| vec![i as f64]).collect() };
        for (swapped, fitted) in [
            (&[][..], 0),
            (&[false, true, false][..], 0),
            (&[false, false, false, true][..], 0),
            (&[false; 6][..], 0),
            (&[false, true, true, false][..], 1),
            (&ALTERNATING[..], 1),
        ] {
            let leveled = level(pairs(swapped.len()), swapped, 4);
            assert_eq!(leveled.fitted, fitted, "{swapped:?}");
            assert!(fitted == 1 || leveled.instances == pairs(swapped.len()));
        }
        assert_eq!(level(pairs(6), &ALTERNATING[..5], 4).fitted, 0);
        assert_eq!(level(pairs(6), &ALTERNATING, 7).fitted, 0);
        // An instance without a pair says nothing of its arrangement.
        let mut gone = pairs(4);
        gone[1].clear();
        assert_eq!(level(gone, &[false, true, false, true], 4).fitted, 0);
    }

    proptest! {
        #[test]
        fn with_as_many_of_either_the_mean_stays(effects in proptest::collection::vec(-0.1f64..0.1, 6)) {
            let before: Vec<Vec<f64>> = effects.iter().map(|x| vec![*x]).collect();
            let after = level(before, &ALTERNATING, 6).instances.concat();
            let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
            prop_assert!((mean(&after) - mean(&effects)).abs() < 1e-12);
        }
    }
}
