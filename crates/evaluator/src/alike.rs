//! What the scenarios of one evaluation have in common. Pure.
//!
//! A worker instance runs all of them, and a process that is quicker at one call may be so at every other: on a GPU instances differ by
//! some tens of nanoseconds a call whatever is called ([why](../../../docs/design/gpu.md)). Each scenario's interval knows that;
//! the mean over scenarios must too.

use crate::scenario_state::ScenarioState;
use kernelseek_core::verdict::{Ratio, ScenarioVerdict};
use kernelseek_numerics::stats;

/// Writes into every ratio of an evaluation how alike its scenarios deviate. `states` and `judged` are the same scenarios in the same
/// order; `confidence` is that of the intervals.
pub(crate) fn relate(states: &[ScenarioState], judged: &mut [ScenarioVerdict], confidence: f64) {
    let measured = states.iter().zip(judged.iter()).filter_map(|(state, s)| Some((state, s.ratio?)));
    let correlation = correlation(measured, confidence);
    for ratio in judged.iter_mut().filter_map(|s| s.ratio.as_mut()) {
        ratio.correlation = Some(correlation);
    }
}

/// Correlation between the estimates of two of these scenarios, from what their instances say. Only those count that every instance
/// has measured.
pub(crate) fn correlation<'a>(
    measured: impl Iterator<Item = (&'a ScenarioState, Ratio)>,
    confidence: f64,
) -> f64 {
    let leveled: Vec<(stats::Leveled, f64)> = measured
        .map(|(state, ratio)| {
            (state.leveled(stats::LEAST_FOR_INTERVALS), 0.5 * (ratio.hi.ln() - ratio.lo.ln()))
        })
        .collect();
    let instances = leveled.iter().map(|(l, _)| l.instances.len()).max().unwrap_or(0);
    let fitted = leveled.iter().map(|(l, _)| l.fitted).max().unwrap_or(0);
    let whole = leveled.iter().filter(|(l, _)| l.instances.len() == instances);
    let (levels, halves): (Vec<Vec<f64>>, Vec<f64>) = whole
        .map(|(l, half)| (l.instances.iter().filter_map(|pairs| stats::median(pairs)).collect(), *half))
        .unzip();
    stats::correlation(&levels, &halves, fitted, confidence)
}
