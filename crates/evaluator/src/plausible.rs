//! The last gate: times that physics allows, two clocks that agree, nothing left running, nothing unsettled. Pure.

mod gpu;

pub use gpu::{Agreement, agreement};

use crate::scenario_state::{Pair, ScenarioState};
use crate::settings::Mode;
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::peaks::Peaks;

/// Relative disagreement of the two clocks that is tolerated.
const AGREE_SHARE: f64 = 0.03;
/// Absolute disagreement for each call that is tolerated, nanoseconds.
const AGREE_NS: f64 = 2_000.0;
/// By how much a GPU's change from one process to another varies, nanoseconds a request.
const CHANGEOVER_NS: f64 = 20_000.0;
/// Processor time without a request that is tolerated: a share of the probe and an amount, seconds.
const IDLE_SHARE: f64 = 0.25;
const IDLE_SECONDS: f64 = 0.002;

/// Least time of one call in nanoseconds: operations over the peak rate, bytes over the bandwidth of the level that
/// the mode leaves them in. `None` without a cost model.
#[must_use]
pub fn floor_ns(case: &Case, peaks: &Peaks, threads: usize, mode: Mode) -> Option<f64> {
    let threads = threads.max(1) as f64;
    // Narrow types may run on units that do several times the single-precision rate.
    let floats = case.tensors.iter().filter(|t| t.is_present() && t.dtype.is_float());
    let boost = match floats.map(|t| t.dtype.size()).min().unwrap_or(4) {
        1 => peaks.narrow[0],
        2 => peaks.narrow[1],
        _ => peaks.narrow[2],
    };
    let bandwidth = match mode {
        Mode::Cold => peaks.memory_bytes,
        // Nothing is flushed between the calls of a stream.
        Mode::Warm | Mode::Stream => peaks.cache_bytes,
    };
    let arithmetic = case.flops.map(|f| f / (peaks.f32_flops * boost * threads));
    let traffic = case.bytes.map(|b| b / (bandwidth * threads));
    match (arithmetic, traffic) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0).max(b.unwrap_or(0.0)) * 1e9),
    }
}

/// Time of the candidate's fastest call of any pair, nanoseconds.
fn fastest(pairs: &[Pair], overhead: f64) -> Option<f64> {
    pairs
        .iter()
        // The overhead is the seed's median: a request that was changed over to faster is no faster call.
        .map(|p| (p.candidate_ns - overhead + changeover_ns(p)) / f64::from(p.n.max(1)))
        .min_by(f64::total_cmp)
}

/// By how much a request's time may be off because the device changes over to the worker within it, nanoseconds.
fn changeover_ns(pair: &Pair) -> f64 {
    pair.gpu.filter(|gpu| !gpu.held()).map_or(0.0, |_| CHANGEOVER_NS)
}

/// Everything implausible about a scenario's measurement.
#[must_use]
pub fn findings(state: &ScenarioState, floor: Option<f64>) -> Vec<Finding> {
    let pairs: Vec<Pair> = state.instances.iter().flat_map(|i| i.pairs.iter().copied()).collect();
    let overhead = state.overhead_ns();
    let mut findings = Vec::new();
    let fastest = fastest(&pairs, overhead);
    if let Some(time) = fastest
        && time <= 0.0
    {
        // No time at all says nothing about the candidate: the machine was too busy to be measured.
        findings.push(
            Finding::new(
                "timed.busy",
                Severity::Unproven,
                "a request took less than requests cost on this machine",
            )
            .with_evidence(format!("{:.2} µs of fixed cost, taken from the seed's requests", overhead / 1e3))
            .with_next("evaluate again when the machine is quieter"),
        );
    } else if let (Some(floor), Some(fastest)) = (floor, fastest)
        && (fastest < floor || fastest.is_nan())
    {
        findings.push(
            Finding::new("plausible.floor", Severity::Unproven, "a call was faster than this machine allows")
                .with_evidence(format!(
                    "the fastest call took {:.2} µs, the floor is {:.2} µs",
                    fastest / 1e3,
                    floor / 1e3
                ))
                .with_next("check the problem's cost model; if it is right, work is being skipped"),
        );
    }
    findings.extend(clocks_agree(&pairs, overhead));
    findings.extend(gpu::findings(state, &pairs));
    let (used, probed) = state.idle;
    if used > IDLE_SECONDS && used > IDLE_SHARE * probed {
        findings.push(
            Finding::new(
                "timed.left-running",
                Severity::Fail,
                "the candidate keeps running between requests",
            )
            .with_evidence(format!(
                "{:.1} ms of processor time in {:.1} ms without a request",
                used * 1e3,
                probed * 1e3
            ))
            .with_next("join every thread before returning; a pool must sleep, not spin"),
        );
    }
    if state.unsettled > 0 {
        findings.push(
            Finding::new(
                "correct.partner",
                Severity::Unproven,
                "outputs differ from the seed's beyond both error bounds",
            )
            .with_evidence(format!(
                "{} contents beyond the {} that the reference settled",
                state.unsettled, state.arbitrated
            ))
            .with_next("compare on those contents with the reference; the seed may be the one that is off"),
        );
    }
    findings
}

/// The worker's clock is advisory: it must tell the same story as the supervisor's.
fn clocks_agree(pairs: &[Pair], overhead: f64) -> Option<Finding> {
    let gaps: Vec<f64> = pairs
        .iter()
        .map(|p| {
            let n = f64::from(p.n.max(1));
            let ours = (p.candidate_ns - overhead) / n;
            let gap = (ours - p.candidate_inner_ns / n).abs();
            // Waiting for the core at the gate is in the one clock and not in the other, and nobody's fault.
            gap - (AGREE_SHARE * ours).max(AGREE_NS) - p.candidate_waited_ns / n - changeover_ns(p) / n
        })
        .collect();
    let beyond = kernelseek_numerics::stats::median(&gaps)?;
    (beyond > 0.0).then(|| {
        Finding::new("timed.clocks", Severity::Unproven, "the worker's clock disagrees with the supervisor's")
            .with_evidence(format!("{:.2} µs a call beyond the tolerance", beyond / 1e3))
            .with_next("do not redefine or patch clock functions; finish all work before returning")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario_state::{GpuPair, Instance};

    const PEAKS: Peaks =
        Peaks { f32_flops: 1e11, memory_bytes: 1e10, cache_bytes: 1e11, narrow: [8.0, 4.0, 1.0] };

    fn case(flops: Option<f64>, bytes: Option<f64>) -> Case {
        Case {
            id: "s".into(),
            tags: vec![],
            tensors: vec![],
            storages: vec![],
            attributes: vec![],
            flops,
            bytes,
            tolerance: vec![],
        }
    }

    fn state(pairs: Vec<Pair>) -> ScenarioState {
        let mut state = ScenarioState::new(case(None, None));
        state.instances = vec![Instance { pairs, ..Instance::default() }];
        state
    }

    fn pair(n: u32, seed: f64, candidate: f64, inner: f64) -> Pair {
        Pair {
            n,
            seed_ns: seed,
            candidate_ns: candidate,
            seed_inner_ns: seed - 500.0,
            candidate_inner_ns: inner,
            candidate_waited_ns: 0.0,
            seed_first: true,
            gpu: None,
        }
    }

    #[test]
    fn the_floor_is_the_larger_of_arithmetic_and_traffic() {
        let floor = |flops, bytes, threads, mode| floor_ns(&case(flops, bytes), &PEAKS, threads, mode);
        assert_eq!(floor(None, None, 1, Mode::Cold), None);
        assert_eq!(floor(Some(1e6), None, 1, Mode::Cold), Some(1e4));
        assert_eq!(floor(Some(1e6), Some(1e6), 1, Mode::Cold), Some(1e5));
        assert_eq!(floor(Some(1e6), Some(1e6), 1, Mode::Warm), Some(1e4));
        assert_eq!(floor(Some(1e6), Some(1e6), 1, Mode::Stream), Some(1e4));
        assert_eq!(floor(Some(1e6), Some(1e6), 2, Mode::Cold), Some(5e4));
        let unknown = Peaks { memory_bytes: f64::INFINITY, f32_flops: f64::INFINITY, ..PEAKS };
        assert_eq!(floor_ns(&case(Some(1e6), Some(1e6)), &unknown, 1, Mode::Cold), Some(0.0));
    }

    #[test]
    fn a_time_below_the_floor_is_an_anomaly() {
        let s = state(vec![pair(2, 40_500.0, 20_500.0, 20_000.0)]);
        assert!(findings(&s, Some(9_000.0)).is_empty());
        assert_eq!(findings(&s, Some(11_000.0))[0].defence, "plausible.floor");
    }

    #[test]
    fn a_request_that_is_changed_over_to_faster_is_no_faster_call() {
        let mut pairs = vec![pair(1, 150_000.0, 149_000.0, 12_000.0); 5];
        for p in &mut pairs {
            p.seed_inner_ns = 12_000.0;
            p.gpu = Some(GpuPair::default());
        }
        // 138 µs of fixed cost: 11 µs are left of the call, which may be 20 µs too few.
        assert!(findings(&state(pairs.clone()), Some(30_000.0)).is_empty());
        assert_eq!(findings(&state(pairs), Some(32_000.0))[0].defence, "plausible.floor");
    }

    #[test]
    fn a_time_that_is_none_is_the_machines_doing() {
        let mut pairs = vec![pair(2, 40_500.0, 20_500.0, 20_000.0); 5];
        for p in &mut pairs {
            p.seed_inner_ns = p.seed_ns - 30_000.0;
        }
        let all = findings(&state(pairs), Some(9_000.0));
        assert_eq!(all[0].defence, "timed.busy");
        assert!(all.iter().all(|f| f.defence != "plausible.floor"), "{all:?}");
    }

    #[test]
    fn a_lying_clock_is_an_anomaly() {
        let honest = state(vec![pair(4, 400_500.0, 400_500.0, 399_000.0); 5]);
        assert!(findings(&honest, None).is_empty());
        let lying = state(vec![pair(4, 400_500.0, 400_500.0, 200_000.0); 5]);
        assert_eq!(findings(&lying, None)[0].defence, "timed.clocks");
        let nan = state(vec![pair(4, 400_500.0, f64::NAN, 200_000.0); 5]);
        assert!(findings(&nan, Some(1.0)).iter().any(|f| f.defence == "plausible.floor"));
    }

    #[test]
    fn a_spinning_thread_is_found_and_a_quiet_worker_is_not() {
        let mut s = state(vec![]);
        s.idle = (0.004, 0.004);
        assert_eq!(findings(&s, None)[0].severity, Severity::Fail);
        s.idle = (0.0001, 0.02);
        assert!(findings(&s, None).is_empty());
    }

    #[test]
    fn unsettled_mismatches_are_not_passed_over() {
        let mut s = state(vec![]);
        s.unsettled = 1;
        assert_eq!(findings(&s, None)[0].defence, "correct.partner");
    }
}
