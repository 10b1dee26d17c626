//! Two clocks on honest kernels: the device's events, and the supervisor's wall over the number of calls in a request. Pure.
//!
//! How long a call takes depends on its contents, by up to ten percent, and a request has few calls: the slope of the wall
//! alone would be that of the contents that happened to come together. So the slope is taken of what the wall of each request
//! has beyond its own events, and is what a call takes by the wall beyond what it takes by events.

use super::raw::Raw;
use super::record::AaRun;
use crate::plausible;
use crate::scenario_state::{GpuPair, Pair};
use kernelseek_numerics::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Relative disagreement that is tolerated.
const SHARE: f64 = 0.03;
/// Absolute disagreement that is tolerated, nanoseconds.
const ABSOLUTE_NS: f64 = 2_000.0;
/// Points that a slope is made from at most: its work grows with their square.
const MOST_POINTS: usize = 800;

/// The clocks on one scenario, over all runs of the seed against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimerAgreement {
    /// Problem.
    pub problem: String,
    /// Scenario.
    pub scenario: String,
    /// Pairs that this is from.
    pub pairs: usize,
    /// One call by events, nanoseconds.
    pub events_ns: f64,
    /// One call by the slope of the wall over the number of calls in a request, nanoseconds: by events, and what the wall of a
    /// request beyond its events grows by with each call.
    pub slope_ns: f64,
    /// One call by the wall, with what the partner's request costs beyond its events taken off, nanoseconds: what the
    /// verdict itself looks at.
    pub wall_ns: f64,
    /// Whether events and slope agree within 3 % or 2 µs.
    pub agree: bool,
}

/// The clocks of every scenario of these runs that has them.
#[must_use]
pub fn of(problem: &str, runs: &[AaRun]) -> Vec<TimerAgreement> {
    let mut pairs: BTreeMap<(&str, &str), Vec<Pair>> = BTreeMap::new();
    for run in runs {
        let problem = run.problem.as_deref().unwrap_or(problem);
        for (scenario, Raw(instances)) in &run.raw {
            let all = instances.iter().flat_map(|i| i.pairs.iter().copied());
            pairs.entry((problem, scenario)).or_default().extend(all);
        }
    }
    pairs.into_iter().filter_map(|((problem, scenario), pairs)| one(problem, scenario, &pairs)).collect()
}

fn one(problem: &str, scenario: &str, pairs: &[Pair]) -> Option<TimerAgreement> {
    let two = plausible::agreement(pairs)?;
    // Evenly over all runs rather than the first of them.
    let step = pairs.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> = pairs
        .iter()
        .step_by(step)
        .filter_map(|p| Some((p, p.gpu.filter(GpuPair::held)?)))
        .map(|(p, gpu)| (f64::from(p.n), gpu.candidate.wall_ns - p.candidate_inner_ns))
        .collect();
    let events_ns = two.events_ns;
    let slope_ns = events_ns + stats::slope(&points)?.per_call;
    Some(TimerAgreement {
        problem: problem.to_owned(),
        scenario: scenario.to_owned(),
        pairs: pairs.len(),
        events_ns,
        slope_ns,
        wall_ns: two.wall_ns,
        agree: agree(events_ns, slope_ns),
    })
}

fn agree(events_ns: f64, slope_ns: f64) -> bool {
    (events_ns - slope_ns).abs() <= (SHARE * slope_ns).max(ABSOLUTE_NS)
}

#[cfg(test)]
mod tests {
    use super::super::bars::tests::run;
    use super::*;
    use crate::scenario_state::{GpuSide, Instance};

    fn pair(n: u32, call: f64, wall: f64) -> Pair {
        let events = call * f64::from(n);
        let side = GpuSide { wall_ns: 150e3 + wall * f64::from(n), stream_ns: 1.0, ..GpuSide::default() };
        Pair {
            n,
            seed_ns: events,
            candidate_ns: events,
            seed_inner_ns: events,
            candidate_inner_ns: events,
            candidate_waited_ns: 0.0,
            seed_first: true,
            gpu: Some(GpuPair { seed: side, candidate: side }),
        }
    }

    #[test]
    fn slopes_are_compared_with_events() {
        for (call, wall, expected) in [
            (10e3, 11e3, true),
            (10e3, 13e3, false),
            (10e3, 7e3, false),
            (1e6, 1.02e6, true),
            (1e6, 1.05e6, false),
        ] {
            let mut with = run(1.0);
            let pairs = (1..=16).map(|n| pair(n, call, wall)).collect();
            with.raw.insert("s".into(), Raw(vec![Instance { pairs, ..Instance::default() }]));
            let all = of("p", &[with]);
            assert_eq!((all.len(), all[0].pairs), (1, 16));
            assert_eq!(all[0].agree, expected, "{all:?}");
            assert!((all[0].slope_ns - wall).abs() < 1.0 && (all[0].events_ns - call).abs() < 1.0);
        }
        // Contents that take twice as long come with many calls: that is no disagreement.
        let mut with = run(1.0);
        let of = |n: u32| if n > 8 { pair(n, 20e3, 21e3) } else { pair(n, 10e3, 11e3) };
        let pairs = (1..=16).map(of).collect();
        with.raw.insert("s".into(), Raw(vec![Instance { pairs, ..Instance::default() }]));
        let all = of_one(&with);
        assert!(all.agree && (all.slope_ns - all.events_ns - 1e3).abs() < 1.0, "{all:?}");
        assert!(!agree(f64::NAN, 1.0) && !agree(1.0, f64::NAN));
    }

    fn of_one(run: &AaRun) -> TimerAgreement {
        of("p", std::slice::from_ref(run)).remove(0)
    }

    #[test]
    fn a_cpu_has_no_second_clock() {
        let mut with = run(1.0);
        let mut cpu = pair(1, 1.0, 1.0);
        cpu.gpu = None;
        with.raw.insert("s".into(), Raw(vec![Instance { pairs: vec![cpu], ..Instance::default() }]));
        assert!(of("p", &[with]).is_empty());
    }
}
