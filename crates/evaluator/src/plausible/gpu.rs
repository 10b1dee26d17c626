//! Two clocks on a GPU: the events that the worker reports, and the wall that the supervisor sees from the opening of the
//! gate until the whole device is idle. Pure.
//!
//! The events are precise and lie in the candidate's reach; the wall is coarse and does not. A request costs a fixed time
//! besides its calls (the device changes over to the worker), which the seed's requests show: what the candidate's wall has
//! beyond its events may not exceed what the seed's has.

use crate::scenario_state::{GpuPair, GpuSide, Pair, ScenarioState};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_numerics::stats;
use serde::{Deserialize, Serialize};

/// Relative disagreement of a call's two times that is tolerated.
const SHARE: f64 = 0.03;
/// Absolute disagreement of a call's two times that is tolerated, nanoseconds.
const ABSOLUTE_NS: f64 = 2_000.0;
/// Work beside the call's stream that is no matter of doubt any more, nanoseconds a request.
const BESIDE_NS: f64 = 1e6;
/// A canary kernel that takes longer than this multiple of what it takes after the seed's requests, and this much longer in
/// nanoseconds, has shared the device with something.
const CANARY_TIMES: f64 = 1.4;
const CANARY_NS: f64 = 40_000.0;
/// From this much on it is doubted that it had the device to itself. In 524 verdicts on the seed itself on an H200 the medians
/// of both sides were at most 5.2 µs apart (of 169), with a standard deviation of 1.4 µs.
const DOUBT_TIMES: f64 = 1.1;
const DOUBT_NS: f64 = 20_000.0;
/// Where the canaries of single requests are restless, so many standard errors of the difference of their medians.
const DOUBT_ERRORS: f64 = 6.0;
/// Share of the requests in which work may seem to go on without condemning anybody: on a host whose cores are wanted elsewhere
/// either process is late at times, and what goes on by its own doing goes on every time.
const BY_CHANCE: f64 = 0.1;

/// The two times of one call, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// By events.
    pub events_ns: f64,
    /// By the wall, with what the seed's requests cost beyond their events taken off.
    pub wall_ns: f64,
}

impl Agreement {
    /// How far the two are apart beyond what is tolerated; negative when they agree.
    #[must_use]
    pub fn beyond_ns(&self) -> f64 {
        let tolerated = (SHARE * self.wall_ns).max(ABSOLUTE_NS);
        (self.wall_ns - self.events_ns).abs() - tolerated
    }
}

/// The two times of the candidate's call; `None` where nothing was held at a gate.
#[must_use]
pub fn agreement(pairs: &[Pair]) -> Option<Agreement> {
    let mut events = Vec::new();
    let mut walls = Vec::new();
    for pair in pairs {
        let Some(gpu) = pair.gpu.filter(GpuPair::held) else {
            continue;
        };
        let n = f64::from(pair.n.max(1));
        let beyond = |side: &GpuSide, events: f64| side.wall_ns - events;
        let fixed = beyond(&gpu.seed, pair.seed_ns);
        events.push(pair.candidate_ns / n);
        walls.push((gpu.candidate.wall_ns - fixed) / n);
    }
    // A time that is no number must not be left out of the median.
    let median =
        |all: &[f64]| if all.iter().any(|x| x.is_nan()) { Some(f64::NAN) } else { stats::median(all) };
    Some(Agreement { events_ns: median(&events)?, wall_ns: median(&walls)? })
}

pub(super) fn findings(state: &ScenarioState, pairs: &[Pair]) -> Vec<Finding> {
    match beside_the_stream(pairs) {
        Some(finding) => vec![finding],
        None => clocks(pairs).into_iter().chain(left_running(state)).collect(),
    }
}

/// Work that was still going on long after the call's stream had ended: both ends are the supervisor's own observations.
fn beside_the_stream(pairs: &[Pair]) -> Option<Finding> {
    let after = |side: &GpuSide| side.wall_ns - side.stream_ns;
    let beyond: Vec<f64> = pairs
        .iter()
        .filter_map(|p| p.gpu)
        .filter(GpuPair::held)
        .map(|g| after(&g.candidate) - after(&g.seed))
        .collect();
    let least = nearly_always(beyond)?;
    (least > BESIDE_NS).then(|| {
        Finding::new(
            "timed.left-running",
            Severity::Fail,
            "the candidate's work goes on beside the call's stream",
        )
        .with_evidence(format!("for {:.1} ms and more after the stream had ended", least / 1e6))
        .with_next("join every stream to the call's stream before returning, and end persistent kernels")
    })
}

/// What all of `values` reach but those that chance may have made small; `None` without any, or when one is no number.
fn nearly_always(mut values: Vec<f64>) -> Option<f64> {
    if values.iter().any(|v| v.is_nan()) {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let chance = BY_CHANCE * values.len().saturating_sub(1) as f64;
    values.get(chance as usize).copied()
}

/// Standard error of the median of `values`, from their median absolute deviation as if they were normal.
fn median_error(values: &[f64]) -> Option<f64> {
    let deviation = 1.4826 * stats::mad(values)?;
    Some((std::f64::consts::FRAC_PI_2 / values.len() as f64).sqrt() * deviation)
}

fn clocks(pairs: &[Pair]) -> Option<Finding> {
    let two = agreement(pairs)?;
    let beyond = two.beyond_ns();
    // Written so that a time that is no number does not pass.
    if beyond <= 0.0 {
        return None;
    }
    Some(
        Finding::new("timed.clocks", Severity::Unproven, "the events disagree with the supervisor's clock")
            .with_evidence(format!(
                "{:.2} µs a call by events, {:.2} µs by the wall until the device was idle",
                two.events_ns / 1e3,
                two.wall_ns / 1e3
            ))
            .with_next(
                "join every stream to the call's stream before returning; do not patch the runtime's clocks",
            ),
    )
}

fn left_running(state: &ScenarioState) -> Option<Finding> {
    let [seed, candidate] = state.canary.medians()?;
    let shared = |time: f64| time > CANARY_TIMES * seed && time > seed + CANARY_NS;
    let always = shared(nearly_always(state.canary.candidate.clone())?);
    let severity = if always { Severity::Fail } else { Severity::Unproven };
    let error = median_error(&state.canary.seed)?.hypot(median_error(&state.canary.candidate)?);
    let doubted = candidate > DOUBT_TIMES * seed && candidate > seed + DOUBT_NS.max(DOUBT_ERRORS * error);
    doubted.then(|| {
        Finding::new("timed.left-running", severity, "the candidate's work goes on after its call")
            .with_evidence(format!(
                "a kernel of the supervisor's takes {:.0} µs after the candidate's requests and {:.0} µs after the seed's",
                candidate / 1e3,
                seed / 1e3
            ))
            .with_next("end every kernel before the call's stream ends; a persistent kernel must be told to stop")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario_state::{GpuPair, Instance};
    use kernelseek_core::case::Case;

    /// `gap`: what the wall has beyond the events.
    fn side(events: f64, gap: f64) -> GpuSide {
        GpuSide { wall_ns: events + gap, stream_ns: events + gap - 3e3, ..GpuSide::default() }
    }

    fn pair(n: u32, seed: f64, candidate: f64, seed_gap: f64, candidate_gap: f64) -> Pair {
        Pair {
            n,
            seed_ns: seed,
            candidate_ns: candidate,
            seed_inner_ns: seed,
            candidate_inner_ns: candidate,
            candidate_waited_ns: 0.0,
            seed_first: true,
            gpu: Some(GpuPair { seed: side(seed, seed_gap), candidate: side(candidate, candidate_gap) }),
        }
    }

    fn defences(pairs: &[Pair]) -> Vec<String> {
        clocks(pairs).into_iter().map(|f| f.defence).collect()
    }

    #[test]
    fn honest_events_agree_with_the_wall() {
        let pairs: Vec<Pair> = (1..=16)
            .map(|n| {
                pair(
                    n,
                    10e3 * f64::from(n),
                    8e3 * f64::from(n),
                    150e3 + 1e3 * f64::from(n),
                    151e3 + 1.2e3 * f64::from(n),
                )
            })
            .collect();
        assert!(defences(&pairs).is_empty(), "{:?}", agreement(&pairs));
    }

    #[test]
    fn work_beside_the_events_is_seen_in_the_wall() {
        // Calls of 1 µs by events, behind which 9 µs run on another stream.
        let pairs: Vec<Pair> = (1..=16)
            .map(|n| pair(n, 10e3 * f64::from(n), 1e3 * f64::from(n), 150e3, 150e3 + 9e3 * f64::from(n)))
            .collect();
        assert_eq!(defences(&pairs), ["timed.clocks"]);
        let two = agreement(&pairs).unwrap();
        assert!((two.wall_ns - 10e3).abs() < 1.0, "{two:?}");
    }

    #[test]
    fn work_long_after_the_stream_is_a_failure() {
        let mut late = pair(4, 40e3, 8e3, 150e3, 150e3);
        if let Some(gpu) = &mut late.gpu {
            gpu.candidate.wall_ns += 3e6;
        }
        let found = beside_the_stream(&[late, late, late]).unwrap();
        assert_eq!((found.defence.as_str(), found.severity), ("timed.left-running", Severity::Fail));
        let fine = pair(4, 40e3, 8e3, 150e3, 150e3);
        assert!(beside_the_stream(&[late, fine, fine]).is_none());
        // A busy host is late now and then, and be it most of the time.
        assert!(beside_the_stream(&[late, late, late, late, late, fine, late, fine]).is_none());
    }

    #[test]
    fn a_share_of_a_long_call_is_tolerated_and_no_more() {
        assert!(defences(&[pair(1, 1e6, 1e6, 150e3, 175e3)]).is_empty());
        assert_eq!(defences(&[pair(1, 1e6, 1e6, 150e3, 190e3)]), ["timed.clocks"]);
        let mut no_number = pair(1, 1e6, 1e6, 150e3, 150e3);
        no_number.candidate_ns = f64::NAN;
        assert_eq!(defences(&[no_number]), ["timed.clocks"]);
    }

    #[test]
    fn pairs_of_the_cpu_have_no_second_clock() {
        let mut cpu = pair(1, 1e6, 1e6, 0.0, 0.0);
        cpu.gpu = None;
        assert_eq!(agreement(&[cpu]), None);
    }

    #[test]
    fn a_slow_canary_means_that_something_runs_on() {
        let case = Case {
            id: "s".into(),
            tags: vec![],
            tensors: vec![],
            storages: vec![],
            attributes: vec![],
            flops: None,
            bytes: None,
            tolerance: vec![],
        };
        let mut state = ScenarioState::new(case);
        state.instances = vec![Instance::default()];
        assert!(left_running(&state).is_none(), "nothing was measured");
        state.canary.seed = vec![157e3, 158e3, 160e3];
        state.canary.candidate = vec![159e3, 2_400e3, 161e3];
        assert!(left_running(&state).is_none(), "one of three may be the machine's doing");
        state.canary.candidate = vec![236e3, 2_400e3, 2_381e3];
        let found = left_running(&state).unwrap();
        assert_eq!((found.defence.as_str(), found.severity), ("timed.left-running", Severity::Fail));
        state.canary.candidate = vec![159e3, 2_400e3, 2_381e3];
        assert_eq!(
            left_running(&state).unwrap().severity,
            Severity::Unproven,
            "two of three may be a busy host's"
        );
        // A quiet host: twenty-five microseconds are seen. A restless one: they are not told from its own.
        let around = |middle: f64, scatter: f64| -> Vec<f64> {
            (-20..=20).map(|i| middle + scatter * f64::from(i) / 20.0).collect()
        };
        for (more, scatter, expected) in [
            (25e3, 5e3, Some(Severity::Unproven)),
            (15e3, 5e3, None),
            (25e3, 60e3, None),
            (110e3, 60e3, Some(Severity::Unproven)),
            (150e3, 60e3, Some(Severity::Fail)),
            (0.0, 0.0, None),
        ] {
            state.canary.seed = around(169e3, scatter);
            state.canary.candidate = around(169e3 + more, scatter);
            let found = left_running(&state).map(|f| f.severity);
            assert_eq!(found, expected, "{more} {scatter}");
        }
    }
}
