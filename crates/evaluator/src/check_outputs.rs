//! `check`, output by output. A call is judged by all of its outputs at once, so one whose bound means nothing can hide
//! behind the others; and a yardstick is only as good as the seed that it is taken from.

use crate::compare;
use crate::outputs::Outputs;
use crate::scenario_state::ScenarioState;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_numerics::content::Distribution;

/// Operations for each output element from which on the order of a sum matters.
const REDUCES: f64 = 8.0;

/// What the fixed contents of one scenario showed about one output.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Largest error of the seed, relative to the output's RMS.
    error: f64,
    /// The same on nominal contents alone: stress may be ill conditioned for the best of seeds.
    nominal: f64,
    /// The seed's bytes were not always the reference's.
    differs: bool,
    /// Zeros were a wrong answer on some content.
    asked: bool,
    /// Zeros were refused on some content.
    refused: bool,
}

/// The outputs of one scenario, content after content.
#[derive(Debug)]
pub(crate) struct OutputCheck {
    seen: Vec<(usize, Seen)>,
}

impl OutputCheck {
    pub(crate) fn new(state: &ScenarioState) -> Self {
        let judged = |index: &usize| {
            let tensor = &state.case.tensors[*index];
            tensor.role.is_output() && tensor.is_present() && !tensor.is_empty()
        };
        Self {
            seen: (0..state.case.tensors.len())
                .filter(judged)
                .map(|index| (index, Seen::default()))
                .collect(),
        }
    }

    /// Takes one content into account.
    pub(crate) fn content(
        &mut self,
        state: &ScenarioState,
        reference: &Outputs,
        seed: &Outputs,
        distribution: Distribution,
    ) {
        for (index, seen) in &mut self.seen {
            let right = &reference.tensors[*index];
            let error = compare::relative_error_of(state, *index, reference, seed);
            seen.differs |=
                if reference.sample.is_some() { error > 0.0 } else { *right != seed.tensors[*index] };
            seen.error = seen.error.max(error);
            if distribution == Distribution::Nominal {
                seen.nominal = seen.nominal.max(error);
            }
            if !right.is_zero() {
                let mut answer = reference.clone();
                answer.tensors[*index] = right.zeroed(0);
                seen.asked = true;
                seen.refused |= compare::fails(state, reference, &answer, distribution);
            }
        }
    }

    /// What is wrong with the outputs' bounds.
    pub(crate) fn findings(&self, state: &ScenarioState, model: bool) -> Vec<Finding> {
        let elements: usize = self.seen.iter().map(|(index, _)| state.case.tensors[*index].len()).sum();
        let reduces = state.case.flops.is_some_and(|flops| flops >= REDUCES * elements as f64);
        let mut findings = Vec::new();
        for (index, seen) in &self.seen {
            let tensor = &state.case.tensors[*index];
            let (name, dtype) = (&tensor.name, tensor.dtype);
            let own = |error: f64| format!("the seed's own error there is {error:.1e} of the output's RMS");
            // With one output it is the trivial answer that `check` tries anyway.
            if self.seen.len() > 1 && seen.asked && !seen.refused {
                findings.push(
                    Finding::new(
                        "check.output",
                        Severity::Fail,
                        format!("`{name}` may be anything: zeros are accepted where the other outputs are right"),
                    )
                    .with_evidence(own(seen.error))
                    .with_next(format!(
                        "compare the seed's `{name}` with the reference's; if both are right, tighten its tolerance"
                    )),
                );
                continue;
            }
            let Some(tolerance) = state.case.tolerance.get(*index).and_then(Option::as_ref) else { continue };
            if !dtype.is_float() || tolerance.atol.is_some() {
                continue;
            }
            if seen.nominal > dtype.epsilon().sqrt() && tolerance.rel_rms_max.is_none() {
                findings.push(
                    Finding::new(
                        "check.coarse-seed",
                        Severity::Warning,
                        format!("the seed loses more than half of the digits of `{name}`, and so may every candidate"),
                    )
                    .with_evidence(format!("{}, on nominal contents", own(seen.nominal)))
                    .with_next(format!(
                        "make the seed as precise as candidates should be, or cap the error of `{name}` with `rel_rms_max`"
                    )),
                );
            } else if !seen.differs && reduces && !model {
                findings.push(
                    Finding::new(
                        "check.exact-seed",
                        Severity::Warning,
                        format!("the seed rounds `{name}` exactly as the reference does: sums in another order will fail"),
                    )
                    .with_evidence("its error is 0, so the bound is `floor_ulps` alone")
                    .with_next("let the seed add up in the precision that candidates may use, or declare a precision model"),
                );
            }
        }
        findings
    }
}
