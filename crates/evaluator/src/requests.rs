//! How many slots, calls and references a measurement takes, and what a pair of answers says. Pure.

use crate::calibration::Noise;
use crate::call_class::CallClass;
use crate::request::Returned;
use crate::scenario_state::{GpuPair, GpuSide, Pair, ScenarioState};
use crate::settings::{Effort, Mode};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::protocol::Status;
use std::time::Duration;

/// Memory that the slots of one worker may take.
const POOL_BYTES: usize = 768 << 20;
/// The same on a GPU: its memory is larger, and the slots together should exceed its cache several times.
const GPU_POOL_BYTES: usize = 3 << 30;

/// Slots of one worker's pool.
pub(crate) fn pool_size(slot_bytes: usize, max: usize, gpu_memory: Option<usize>) -> usize {
    let bytes = gpu_memory.map_or(POOL_BYTES, |memory| GPU_POOL_BYTES.min(memory / 8));
    (bytes / slot_bytes.max(1)).clamp(2, max.max(2))
}

/// Slots of a pool of `pool` that fit into half of a cache together: the other half is what the calls themselves need.
pub(crate) fn in_cache(cache_bytes: usize, slot_bytes: usize, pool: usize) -> usize {
    (cache_bytes / 2 / slot_bytes.max(1)).clamp(1, pool.max(1))
}

/// Calls of one request, drawn with `below` (a number below the one given): nobody knows beforehand how many. On a GPU at
/// least half of what a request may hold: a ratio's noise there is that of single calls, and what surrounds a request costs
/// more than they do.
pub(crate) fn calls(most: usize, on_gpu: bool, below: impl FnOnce(usize) -> usize) -> usize {
    let least = least_calls(most, on_gpu);
    least + below(most.max(1) + 1 - least)
}

/// Fewest calls of a request that may hold `most`.
pub(crate) fn least_calls(most: usize, on_gpu: bool) -> usize {
    if on_gpu { 1 + most / 2 } else { 1 }.min(most.max(1))
}

/// Share of the wanted width of an interval that the scatter of single pairs may come to by itself: what one process differs
/// from the next by needs the rest, and no number of pairs makes that less; and widths scatter.
const OF_THE_WIDTH: f64 = 0.4;

/// Student's quantile at 99 % for the degrees of freedom that eight instances leave.
const STUDENT: f64 = 3.7;

/// Timed pairs of one instance: as many as a scenario needs for [`OF_THE_WIDTH`], by what a calibration has seen of it, up to three
/// times the usual number. At least the usual number: what a calibration has seen of a scenario, a busier moment exceeds. Decided before
/// anything is measured, and from other data: an interval that ended its own measurement once it was narrow would be too narrow.
pub(crate) fn pairs(effort: &Effort, noise: Option<Noise>) -> usize {
    let usual = effort.pairs;
    let Some(noise) = noise else { return usual };
    let aim = OF_THE_WIDTH * CallClass::of(noise.call_ns).half_width();
    let needed = (STUDENT * noise.scatter / aim).powi(2) / effort.instances.max(1) as f64;
    // NaN becomes 0, and the least.
    (needed.ceil() as usize).clamp(usual, 3 * usual)
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

pub(crate) fn pair_times(
    seed: &Returned,
    candidate: &Returned,
    n: usize,
    seed_first: bool,
    mode: Mode,
) -> Pair {
    let inner = |r: &Returned| r.answer.inner.iter().sum::<Duration>().as_nanos() as f64;
    let waited = candidate.answer.waited.as_nanos() as f64;
    let base = Pair {
        n: n as u32,
        seed_ns: seed.answer.wall.as_nanos() as f64,
        candidate_ns: candidate.answer.wall.as_nanos() as f64,
        seed_inner_ns: inner(seed),
        candidate_inner_ns: inner(candidate),
        candidate_waited_ns: waited,
        seed_first,
        gpu: None,
    };
    if seed.answer.host.is_empty() && candidate.answer.host.is_empty() {
        return base;
    }
    let gpu = Some(GpuPair { seed: gpu_side(seed), candidate: gpu_side(candidate) });
    if seed.answer.stream_wall.is_none() {
        return Pair { gpu, ..base };
    }
    // What the device did, by its own clock: a hundred times finer than the wall, which has to agree (`plausible`).
    let device = |r: &Returned| match (mode, r.answer.span) {
        (Mode::Stream, Some(span)) => span.as_nanos() as f64,
        _ => inner(r),
    };
    let (seed_ns, candidate_ns) = (device(seed), device(candidate));
    Pair { seed_ns, candidate_ns, seed_inner_ns: seed_ns, candidate_inner_ns: candidate_ns, gpu, ..base }
}

fn gpu_side(returned: &Returned) -> GpuSide {
    let answer = &returned.answer;
    let nanos = |d: Duration| d.as_nanos() as f64;
    GpuSide {
        wall_ns: nanos(answer.wall),
        stream_ns: answer.stream_wall.map_or(0.0, nanos),
        span_ns: answer.span.map_or(0.0, nanos),
        device_ns: nanos(answer.inner.iter().sum()),
        host_ns: nanos(answer.host.iter().sum()),
        sm_mhz: returned.look.map_or(0.0, |look| look.sm_mhz),
    }
}

/// By how much the clocks of the two requests differ, as a share; 0 where they were not taken.
pub(crate) fn clock_gap(pair: &Pair) -> f64 {
    let Some(gpu) = pair.gpu else { return 0.0 };
    let (a, b) = (gpu.seed.sm_mhz, gpu.candidate.sm_mhz);
    if a > 0.0 && b > 0.0 { (a / b - 1.0).abs() } else { 0.0 }
}

pub(crate) fn median_ratio(state: &ScenarioState) -> Option<f64> {
    kernelseek_numerics::stats::median(&state.log_ratios().concat()).map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Tier;

    #[test]
    fn references_are_spread_and_none_is_lost() {
        for (instances, total) in [(3, 1), (5, 2), (6, 4), (1, 3), (4, 0)] {
            let sum: usize = (0..instances).map(|i| references_in(i, instances, total)).sum();
            assert_eq!(sum, total, "{instances} {total}");
        }
    }

    #[test]
    fn pools_fit_memory() {
        assert_eq!(pool_size(1 << 10, 16, None), 16);
        assert_eq!(pool_size(256 << 20, 16, None), 3);
        assert_eq!(pool_size(4 << 30, 16, None), 2);
        assert_eq!(pool_size(0, 8, None), 8);
        assert_eq!(pool_size(256 << 20, 16, Some(140 << 30)), 12);
        assert_eq!(pool_size(256 << 20, 16, Some(8 << 30)), 4);
    }

    #[test]
    fn what_shall_be_warm_fits_the_cache() {
        assert_eq!(in_cache(50 << 20, 1 << 20, 16), 16);
        assert_eq!(in_cache(50 << 20, 5 << 20, 16), 5);
        assert_eq!(in_cache(50 << 20, 64 << 20, 16), 1);
        assert_eq!((in_cache(0, 0, 0), in_cache(1 << 20, 0, 2)), (1, 2));
    }

    #[test]
    fn a_request_holds_what_it_may_and_on_a_gpu_at_least_half() {
        for most in 0..=33 {
            for (on_gpu, least) in [(false, 1), (true, (1 + most / 2).min(most.max(1)))] {
                let mut choices = 0;
                let fewest = calls(most, on_gpu, |n| {
                    choices = n;
                    0
                });
                assert_eq!(fewest, least, "{most} {on_gpu}");
                assert_eq!(calls(most, on_gpu, |n| n - 1), most.max(1), "{most} {on_gpu}");
                assert_eq!(choices, most.max(1) + 1 - least);
            }
        }
    }

    #[test]
    fn restless_scenarios_get_more_pairs() {
        let effort = Effort { instances: 8, pairs: 4, ..Effort::of(Tier::Default) };
        for (scatter, call_ns, expected) in [
            (0.0, 1e6, 4),
            (0.0008, 103e3, 4),
            (0.0052, 52.8e3, 12),
            (0.004, 52.8e3, 7),
            (0.0052, 48e3, 4),
            (0.0078, 216e3, 12),
            (0.008, 20e3, 7),
            (0.008, 9.2e3, 4),
            (f64::NAN, 1e3, 4),
            (f64::INFINITY, f64::NAN, 12),
        ] {
            let noise = Some(Noise { scatter, call_ns });
            assert_eq!(pairs(&effort, noise), expected, "{scatter} {call_ns}");
        }
        assert_eq!(pairs(&effort, None), 4);
        // More of everything where more was asked for.
        let full = Effort { pairs: 8, ..effort };
        assert_eq!(pairs(&full, Some(Noise { scatter: 0.0, call_ns: 1e6 })), 8);
        assert_eq!(pairs(&Effort { pairs: 1, ..effort }, Some(Noise { scatter: 0.0, call_ns: 1e6 })), 1);
        assert_eq!(pairs(&Effort { pairs: 0, ..effort }, None), 0);
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
