//! From what was measured to a verdict on one scenario. Pure.

use crate::plausible;
use crate::scenario_state::{GpuPair, GpuSide, Pair, ScenarioState};
use crate::settings::{Effort, Mode};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{GpuSplit, GpuTimes, Ratio, ScenarioVerdict, Stage, Standing, Word, word_of};
use kernelseek_device::peaks::Peaks;
use kernelseek_numerics::stats::{self, Estimate};

/// What judging needs beside the scenario's state.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Effort that was spent.
    pub effort: Effort,
    /// Peaks of the machine.
    pub peaks: Peaks,
    /// Cores that a call may use.
    pub threads: usize,
    /// Mode that was timed.
    pub mode: Mode,
    /// Standard deviation of the logarithm of the ratio between instances of the seed and itself.
    pub aa_spread: f64,
}

/// The ratio of a scenario with its interval, if anything was timed.
#[must_use]
pub fn ratio(state: &ScenarioState, terms: &Terms) -> Option<Ratio> {
    let e = estimate(state, terms.effort.confidence, terms.aa_spread)?;
    // No clock repeats itself to the bit: the caller turns an interval without width into UNPROVEN.
    let (lo, hi) = if e.zero_width { (e.point, e.point) } else { (e.lo, e.hi) };
    Some(Ratio { point: e.point, lo, hi, instances: e.instances, pairs: e.pairs, correlation: None })
}

/// What the pairs of a scenario say about its ratio.
pub(crate) fn estimate(state: &ScenarioState, confidence: f64, aa_spread: f64) -> Option<Estimate> {
    let leveled = state.leveled(stats::LEAST_FOR_INTERVALS);
    stats::paired_ratio(&leveled.instances, leveled.fitted, confidence, aa_spread, 1).ok()
}

/// Judges one scenario.
#[must_use]
pub fn scenario(state: &ScenarioState, terms: &Terms) -> ScenarioVerdict {
    let floor = plausible::floor_ns(&state.case, &terms.peaks, terms.threads, terms.mode);
    let mut findings = state.findings.clone();
    let fallback = state.declined > 0 && state.declined == state.answered;
    if state.declined > 0 && !fallback {
        findings.push(
            Finding::new(
                "correct.mixed-status",
                Severity::Fail,
                "calls of one scenario were answered both ways",
            )
            .with_evidence(format!("{} of {} declined", state.declined, state.answered))
            .with_next("decide KS_UNSUPPORTED by shapes and attributes alone"),
        );
    }
    if !state.is_dead() && !fallback {
        findings.extend(plausible::findings(state, floor));
    }
    let ratio = if fallback || word_of(&findings) == Word::Fail { None } else { ratio(state, terms) };
    if let Some(r) = ratio
        && (r.hi <= r.lo || r.hi.is_nan() || r.lo.is_nan())
    {
        findings.push(
            Finding::new("timed.zero-width", Severity::Unproven, "the interval has no width")
                .with_next("measure again: identical times mean a clock that does not tick"),
        );
    }
    let mut word = word_of(&findings);
    if word == Word::Pass && !fallback {
        match ratio {
            None => {
                // One instance makes no interval.
                let (message, next) = if terms.effort.instances < 2 {
                    ("right on every content, and not timed", "evaluate without --untimed")
                } else {
                    ("nothing could be timed", "run `kernelseek doctor`, then evaluate again")
                };
                findings.push(Finding::new("timed.nothing", Severity::Unproven, message).with_next(next));
                word = Word::Unproven;
            }
            // An interval that lies wholly on one side of 1 has told what it was asked, however wide.
            Some(r) if r.standing(terms.effort.margin) == Standing::Unresolved => {
                findings.push(
                    Finding::new(
                        "timed.unresolved",
                        Severity::Note,
                        format!(
                            "the interval holds 1 and is wider than ±{:.0} %",
                            100.0 * terms.effort.margin
                        ),
                    )
                    .with_evidence(format!("±{:.1} %", 100.0 * r.half_width()))
                    .with_next("evaluate again when the machine is quieter"),
                );
                word = Word::Unresolved;
            }
            Some(_) => {}
        }
    }
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    let first = |side: &dyn Fn(&crate::scenario_state::Instance) -> f64| {
        let all: Vec<f64> = state.instances.iter().map(side).filter(|ns| *ns > 0.0).collect();
        stats::median(&all)
    };
    let prepare: Vec<f64> = state.instances.iter().filter_map(|i| i.prepare_ns).collect();
    ScenarioVerdict {
        id: state.case.id.clone(),
        word,
        passed: passed(&findings),
        ratio,
        standing: ratio.map(|r| r.standing(terms.effort.margin)),
        seed_ns: state.per_call(|p| p.seed_ns),
        candidate_ns: if fallback { None } else { state.per_call(|p| p.candidate_ns) },
        floor_ns: floor,
        worst_error: state.worst.clone(),
        contents: state.contents,
        referenced: state.referenced,
        first_call_ns: first(&|i| i.candidate_first_ns),
        prepare_ns: stats::median(&prepare),
        fallback,
        audited: state.audited,
        gpu: if fallback { None } else { gpu_split(state) },
        findings,
    }
}

/// Where the time of a call goes on a GPU; `None` where nothing was held at a gate.
fn gpu_split(state: &ScenarioState) -> Option<GpuSplit> {
    let gated: Vec<(&Pair, GpuPair)> = state
        .instances
        .iter()
        .flat_map(|i| &i.pairs)
        .filter_map(|p| Some((p, p.gpu?)))
        .filter(|(_, g)| g.held())
        .collect();
    let side = |pick: &dyn Fn(&GpuPair) -> GpuSide| -> Option<GpuTimes> {
        let median = |of: &dyn Fn(GpuSide, f64) -> Option<f64>| {
            let all: Vec<f64> =
                gated.iter().filter_map(|(p, g)| of(pick(g), f64::from(p.n.max(1)))).collect();
            stats::median(&all)
        };
        Some(GpuTimes {
            device_ns: median(&|g, n| Some(g.device_ns / n))?,
            // Between n calls there are n - 1 gaps.
            idle_ns: median(&|g, n| (n > 1.0).then(|| ((g.span_ns - g.device_ns) / (n - 1.0)).max(0.0)))
                .unwrap_or(0.0),
            host_ns: median(&|g, n| Some(g.host_ns / n))?,
        })
    };
    Some(GpuSplit { seed: side(&|g| g.seed)?, candidate: side(&|g| g.candidate)? })
}

/// Last stage that findings leave standing.
fn passed(findings: &[Finding]) -> Stage {
    let worst = findings
        .iter()
        .filter(|f| f.severity >= Severity::Unproven)
        .filter_map(|f| match f.defence.split('.').next() {
            Some("allowed") => Some(Stage::Built),
            Some("correct") => Some(Stage::Allowed),
            Some("timed") => Some(Stage::Correct),
            Some("plausible" | "audit" | "harness") => Some(Stage::Timed),
            _ => None,
        })
        .min();
    worst.unwrap_or(Stage::Plausible)
}
