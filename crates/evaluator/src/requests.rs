//! How many slots, calls and references a measurement takes, and what a pair of answers says. Pure.

use crate::request::Returned;
use crate::scenario_state::{Pair, ScenarioState};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::protocol::Status;
use std::time::Duration;

/// Memory that the slots of one worker may take.
const POOL_BYTES: usize = 768 << 20;

/// Slots of one worker's pool.
pub(crate) fn pool_size(slot_bytes: usize, max: usize) -> usize {
    (POOL_BYTES / slot_bytes.max(1)).clamp(2, max.max(2))
}

/// How many of an instance's requests carry a content that the reference computes.
pub(crate) fn references_in(index: usize, instances: usize, total: usize) -> usize {
    (index + 1) * total / instances - index * total / instances
}

/// What the statuses of one request say against the candidate.
pub(crate) fn status_finding(statuses: &[Status]) -> Option<Finding> {
    let bad = statuses.iter().find(|s| !matches!(s, Status::Ok | Status::Unsupported));
    if let Some(status) = bad {
        return Some(
            Finding::new("correct.status", Severity::Fail, "a call did not return KS_OK")
                .with_evidence(format!("{status:?}"))
                .with_next(
                    "return KS_UNSUPPORTED for scenarios you do not run, decided by shapes and attributes",
                ),
        );
    }
    let declined = statuses.iter().filter(|s| **s == Status::Unsupported).count();
    (declined > 0 && declined < statuses.len()).then(|| {
        Finding::new("correct.mixed-status", Severity::Fail, "calls of one scenario were answered both ways")
            .with_evidence(format!("{declined} of {} declined", statuses.len()))
            .with_next("decide KS_UNSUPPORTED by shapes and attributes alone")
    })
}

/// Largest share of its request that either worker spent waiting for a core.
pub(crate) fn disturbance(seed: &Returned, candidate: &Returned) -> f64 {
    [seed, candidate]
        .iter()
        .map(|r| r.answer.waited.as_secs_f64() / r.answer.wall.as_secs_f64().max(1e-9))
        .fold(0.0, f64::max)
}

pub(crate) fn pair_times(seed: &Returned, candidate: &Returned, n: usize, seed_first: bool) -> Pair {
    let inner = |r: &Returned| r.answer.inner.iter().sum::<Duration>().as_nanos() as f64;
    Pair {
        n: n as u32,
        seed_ns: seed.answer.wall.as_nanos() as f64,
        candidate_ns: candidate.answer.wall.as_nanos() as f64,
        seed_inner_ns: inner(seed),
        candidate_inner_ns: inner(candidate),
        candidate_waited_ns: candidate.answer.waited.as_nanos() as f64,
        seed_first,
    }
}

pub(crate) fn median_ratio(state: &ScenarioState) -> Option<f64> {
    kernelseek_numerics::stats::median(&state.log_ratios().concat()).map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_spread_and_none_is_lost() {
        for (instances, total) in [(3, 1), (5, 2), (6, 4), (1, 3), (4, 0)] {
            let sum: usize = (0..instances).map(|i| references_in(i, instances, total)).sum();
            assert_eq!(sum, total, "{instances} {total}");
        }
    }

    #[test]
    fn pools_fit_memory() {
        assert_eq!(pool_size(1 << 10, 16), 16);
        assert_eq!(pool_size(256 << 20, 16), 3);
        assert_eq!(pool_size(4 << 30, 16), 2);
        assert_eq!(pool_size(0, 8), 8);
    }

    #[test]
    fn statuses_are_judged() {
        use Status::{Error, Ok, Unknown, Unsupported};
        for (statuses, expected) in [
            (vec![Ok, Ok], None),
            (vec![Unsupported, Unsupported], None),
            (vec![Ok, Unsupported], Some("correct.mixed-status")),
            (vec![Ok, Error], Some("correct.status")),
            (vec![Unknown(7)], Some("correct.status")),
        ] {
            assert_eq!(
                status_finding(&statuses).map(|f| f.defence),
                expected.map(str::to_owned),
                "{statuses:?}"
            );
        }
    }
}
