//! Taking out of times what every call of a process costs more or less than in another. Pure.
//!
//! Events around the same call come out some hundred nanoseconds apart in two processes, whatever the call, and so they do around a
//! launch of nothing ([why](../../../docs/design/gpu.md)). Each worker times one before anything of the candidate's is in its
//! process; what that takes beyond the usual is taken off each of its calls.

use crate::scenario_state::{Instance, Pair};
use kernelseek_numerics::stats;

/// Most that one call's time is corrected by, nanoseconds. On an H200 processes are within 200 ns of their middle; what is further
/// off was disturbed while it was taken.
const MOST_NS: f64 = 250.0;

/// Share of what a launch of nothing takes beyond the usual that the process's other calls take as well; the rest is its own. Between
/// 0.55 and 0.9 on four H200s; of 524 verdicts of seeds against themselves the widest and the mean interval are least around here.
const SHARE: f64 = 0.7;

/// What a launch of nothing usually takes, nanoseconds: the median over the processes of both sides.
pub(crate) fn usual_ns(instances: &[Instance]) -> f64 {
    let told: Vec<f64> = instances.iter().filter_map(|i| i.blank_ns).flatten().collect();
    stats::median(&told).unwrap_or(0.0)
}

/// Seed time over candidate time of a pair of this instance, as a logarithm; `overhead` is what a request costs beyond its calls
/// on either side, nanoseconds. `None` where there is no such ratio.
pub(crate) fn log_ratio(instance: &Instance, pair: &Pair, overhead: f64, usual: f64) -> Option<f64> {
    let beyond = |ns: f64| SHARE * (ns - usual).clamp(-MOST_NS, MOST_NS);
    let [seed, candidate] = instance.blank_ns.map_or([0.0; 2], |both| both.map(beyond));
    let calls = f64::from(pair.n);
    let ratio = (pair.seed_ns - overhead - calls * seed) / (pair.candidate_ns - overhead - calls * candidate);
    (ratio > 0.0 && ratio.is_finite()).then(|| ratio.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(n: u32, seed_ns: f64, candidate_ns: f64) -> Pair {
        Pair {
            n,
            seed_ns,
            candidate_ns,
            seed_inner_ns: seed_ns,
            candidate_inner_ns: candidate_ns,
            candidate_waited_ns: 0.0,
            seed_first: true,
            gpu: None,
        }
    }

    fn instance(blank_ns: Option<[f64; 2]>) -> Instance {
        Instance { blank_ns, ..Instance::default() }
    }

    #[test]
    fn the_usual_is_in_the_middle_of_what_was_told() {
        let of = |all: &[Option<[f64; 2]>]| {
            usual_ns(&all.iter().copied().map(instance).collect::<Vec<Instance>>())
        };
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[None, None]), 0.0);
        assert_eq!(of(&[Some([3300.0, 3400.0]), None]), 3350.0);
        assert_eq!(of(&[Some([3300.0, 3310.0]), Some([3320.0, 90_000.0])]), 3315.0);
    }

    #[test]
    fn without_a_word_nothing_is_corrected() {
        let plain = log_ratio(&instance(None), &pair(4, 1200.0, 700.0), 200.0, 3300.0);
        assert_eq!(plain, Some(2f64.ln()));
        assert_eq!(log_ratio(&instance(None), &pair(4, 100.0, 700.0), 200.0, 0.0), None);
        assert_eq!(log_ratio(&instance(None), &pair(0, 0.0, 0.0), 0.0, 0.0), None);
        assert_eq!(log_ratio(&instance(Some([f64::NAN, 1.0])), &pair(1, 9e3, 9e3), 0.0, 1.0), None);
    }

    #[test]
    fn what_was_disturbed_corrects_little() {
        let far = log_ratio(&instance(Some([1e6, 3300.0])), &pair(1, 100e3, 100e3), 0.0, 3300.0);
        assert!((far.unwrap() - (1.0 - SHARE * MOST_NS / 100e3).ln()).abs() < 1e-12);
    }

    proptest! {
        /// The same kernel in two processes, one of which takes longer for everything, is as fast as itself.
        #[test]
        fn most_of_what_a_process_costs_more_is_no_gain(
            n in 1u32..17,
            call in 3_000.0f64..1e6,
            usual in 2_000.0f64..9_000.0,
            extra in prop::array::uniform2(-240.0f64..240.0),
        ) {
            let times = extra.map(|e| f64::from(n) * (call + e));
            let i = instance(Some(extra.map(|e| usual + e)));
            let corrected = log_ratio(&i, &pair(n, times[0], times[1]), 0.0, usual).unwrap();
            let measured = (times[0] / times[1]).ln();
            prop_assert!(corrected * measured > -1e-18, "{corrected} of {measured}");
            prop_assert!(corrected.abs() <= (1.0 - SHARE) * 1.15 * measured.abs() + 1e-12, "{corrected} of {measured}");
        }
    }
}
