//! Comparison of outputs with the reference and with the partner.

use crate::outputs::{Data, Digest, Outputs};
use crate::scenario_state::ScenarioState;
use crate::staging::Drawn;
use kernelseek_core::case::Case;
use kernelseek_core::dtype::DType;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_numerics::content::Distribution;
use kernelseek_numerics::judge::{self, Outcome, Rule, Yardstick};
use kernelseek_numerics::metrics::ErrorSummary;
use std::collections::HashSet;

/// Whether two honest implementations could differ this much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Yes.
    Within,
    /// No, or it cannot be said without the reference.
    Beyond,
}

/// Judges one output tensor: floats against the bound, everything else bit by bit.
fn judge_tensor(
    state: &ScenarioState,
    index: usize,
    reference: &Outputs,
    ours: &Outputs,
    distribution: Distribution,
) -> Option<Outcome> {
    let tensor = state.case.tensors.get(index)?;
    let tolerance = state.case.tolerance.get(index)?.as_ref()?;
    if !tensor.role.is_output() || !tensor.is_present() {
        return None;
    }
    let right = reference.tensors.get(index)?;
    let summary =
        Data::compare_asked(tensor.dtype, right, ours.tensors.get(index)?, reference.asked()).ok()?;
    let yardstick = state.yardsticks.get(&(index, distribution)).copied().unwrap_or_default();
    let outcome = judge::allowed(&summary, &yardstick, tolerance, tensor.dtype);
    // Looked at only where it decides: the whole output is gone through.
    if !outcome.pass && repeats(right, tensor.dtype.size()) {
        return Some(judge::allowed_repeating(&summary, &yardstick, tolerance, tensor.dtype));
    }
    Some(outcome)
}

/// Whether an output holds fewer than [`judge::CLASS_MINIMUM`] different elements of `size` bytes.
fn repeats(output: &Data, size: usize) -> bool {
    // Most outputs show many at once, and those on a GPU are large: a piece at a time. A part of an answer begins with what was
    // not asked for, over and over.
    const FIRST: usize = 64 << 10;
    const PIECE: usize = 1 << 20;
    let size = size.max(1);
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let (mut from, mut length) = (0, FIRST);
    while from < output.len() {
        let bytes = output.piece(from, length / size * size);
        let mut last: &[u8] = &[];
        for element in
            bytes.chunks_exact(size).filter(|element| std::mem::replace(&mut last, *element) != *element)
        {
            if !seen.contains(element) {
                seen.insert(element.to_vec());
                if seen.len() >= judge::CLASS_MINIMUM {
                    return false;
                }
            }
        }
        from += bytes.len().max(1);
        length = PIECE;
    }
    true
}

/// Takes the seed's error on one content, and the precision model's if there is one, into the yardstick of the
/// content's distribution.
pub fn extend_yardstick(
    state: &mut ScenarioState,
    reference: &Outputs,
    seed: &Outputs,
    model: Option<&Outputs>,
    distribution: Distribution,
) {
    for index in 0..state.case.tensors.len() {
        let Some(mut yardstick) = yardstick_of(state, index, reference, seed) else { continue };
        if let Some(model) = model.and_then(|m| yardstick_of(state, index, reference, m)) {
            yardstick = yardstick.larger(&model);
        }
        state
            .yardsticks
            .entry((index, distribution))
            .and_modify(|known| *known = known.and_content(&yardstick))
            .or_insert(yardstick);
    }
}

fn yardstick_of(
    state: &ScenarioState,
    index: usize,
    reference: &Outputs,
    outputs: &Outputs,
) -> Option<Yardstick> {
    let tensor = state.case.tensors.get(index)?;
    state.case.tolerance.get(index)?.as_ref()?;
    if !tensor.dtype.is_float() || !tensor.is_present() {
        return None;
    }
    let summary = Data::compare_asked(
        tensor.dtype,
        reference.tensors.get(index)?,
        outputs.tensors.get(index)?,
        reference.asked(),
    )
    .ok()?;
    // An implementation that is not finite where the reference is measures nothing.
    Yardstick::of(&summary).ok()
}

/// Compares the candidate's outputs with the reference's.
pub fn against_reference(
    state: &mut ScenarioState,
    reference: &Outputs,
    ours: &Outputs,
    distribution: Distribution,
    drawn: &Drawn,
) {
    for index in 0..state.case.tensors.len() {
        let Some(outcome) = judge_tensor(state, index, reference, ours, distribution) else { continue };
        let name = state.case.tensors[index].name.clone();
        let rule = outcome.rule.to_string();
        state.note_worst(&name, &rule, outcome.ratio);
        if !outcome.pass {
            if state.answered_before(index, ours, *drawn) {
                state.find(
                    Finding::new(
                        "correct.remembered",
                        Severity::Fail,
                        format!("`{name}` is, bit for bit, what was answered to an earlier call with other contents"),
                    )
                    .with_evidence(format!("{name}, {} content", describe(drawn)))
                    .with_next("compute from the inputs of this call: addresses come back, contents do not"),
                );
            }
            let place =
                outcome.worst.map_or_else(String::new, |i| index_text(&state.case.tensors[index].shape, i));
            state.find(
                Finding::new(
                    "correct.reference",
                    Severity::Fail,
                    format!("`{name}` is outside its error bound ({rule} rule)"),
                )
                .with_evidence(format!("{name}{place}: {}, {} content", how_far(&outcome), describe(drawn)))
                .with_next(format!("compare `{name}{place}` with the reference on this scenario")),
            );
        }
    }
}

/// What a comparison of one call's outputs with its partner's saw, tensor by tensor.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The same bytes.
    equal: Vec<bool>,
    /// Errors of those that are not; `None` where nothing could be compared.
    summaries: Vec<Option<ErrorSummary>>,
}

/// Compares the outputs of several calls with their partners' on the same contents. `digests` are those of both sides, where
/// they are known.
#[must_use]
pub fn beside(
    case: &Case,
    ours: &[Outputs],
    seed: &[Outputs],
    digests: Option<[&[Vec<Digest>]; 2]>,
    wanted: &[bool],
) -> Vec<Beside> {
    let judged = |index: usize| {
        let tensor = &case.tensors[index];
        tensor.role.is_output() && tensor.is_present()
    };
    let mut seen: Vec<Beside> = Vec::new();
    let mut open = Vec::new();
    for (at, (ours, seed)) in ours.iter().zip(seed).enumerate() {
        let mut one =
            Beside { equal: vec![true; ours.tensors.len()], summaries: vec![None; ours.tensors.len()] };
        for index in (0..ours.tensors.len()).filter(|i| judged(*i) && wanted.get(at) == Some(&true)) {
            let equal = match digests {
                Some([a, b]) => a[at][index] == b[at][index],
                None => ours.tensors[index] == seed.tensors[index],
            };
            one.equal[index] = equal;
            if !equal {
                open.push((at, index));
            }
        }
        seen.push(one);
    }
    let pairs: Vec<(DType, &Data, &Data)> = open
        .iter()
        .map(|&(at, index)| (case.tensors[index].dtype, &seed[at].tensors[index], &ours[at].tensors[index]))
        .collect();
    for ((at, index), summary) in open.into_iter().zip(Data::compare_all(&pairs)) {
        seen[at].summaries[index] = summary;
    }
    seen
}

/// Judges one call's outputs by its partner's on the same content: each may be off by its own error.
#[must_use]
pub fn against_partner(state: &mut ScenarioState, seen: &Beside, distribution: Distribution) -> Bound {
    let mut bound = Bound::Within;
    for index in 0..state.case.tensors.len() {
        let tensor = &state.case.tensors[index];
        if seen.equal.get(index) != Some(&false) {
            continue;
        }
        let Some(tolerance) = state.case.tolerance[index].as_ref() else { continue };
        let Some(yardstick) = state.yardsticks.get(&(index, distribution)) else {
            return Bound::Beyond;
        };
        let Some(summary) = &seen.summaries[index] else { return Bound::Beyond };
        let outcome = judge::allowed_partner(summary, yardstick, tolerance, tensor.dtype);
        if outcome.pass {
            let (name, ratio, rule) = (tensor.name.clone(), outcome.ratio, outcome.rule.to_string());
            state.note_worst(&name, &rule, ratio);
        } else {
            bound = Bound::Beyond;
        }
    }
    bound
}

/// Largest error over the float outputs, relative to each output's RMS.
#[must_use]
pub fn relative_error(state: &ScenarioState, reference: &Outputs, outputs: &Outputs) -> f64 {
    (0..state.case.tensors.len())
        .map(|index| relative_error_of(state, index, reference, outputs))
        .fold(0.0, f64::max)
}

/// Largest error of one output relative to its RMS; 0 for what is no float output.
#[must_use]
pub fn relative_error_of(state: &ScenarioState, index: usize, reference: &Outputs, outputs: &Outputs) -> f64 {
    let tensor = &state.case.tensors[index];
    if !(tensor.role.is_output() && tensor.is_present() && tensor.dtype.is_float()) {
        return 0.0;
    }
    Data::compare_asked(tensor.dtype, &reference.tensors[index], &outputs.tensors[index], reference.asked())
        .map_or(0.0, |summary| summary.max_err / summary.ref_rms.max(f64::MIN_POSITIVE))
}

/// The largest error over its bound of any output against the reference. Changes nothing.
#[must_use]
pub fn worst_ratio(
    state: &ScenarioState,
    reference: &Outputs,
    ours: &Outputs,
    distribution: Distribution,
) -> f64 {
    (0..state.case.tensors.len())
        .filter_map(|index| judge_tensor(state, index, reference, ours, distribution))
        .map(
            |outcome| {
                if outcome.pass { outcome.ratio.min(1.0) } else { outcome.ratio.max(1.0 + f64::EPSILON) }
            },
        )
        .fold(0.0, f64::max)
}

/// Whether `ours` would fail against the reference. Changes nothing.
#[must_use]
pub fn fails(state: &ScenarioState, reference: &Outputs, ours: &Outputs, distribution: Distribution) -> bool {
    (0..state.case.tensors.len()).any(|index| {
        judge_tensor(state, index, reference, ours, distribution).is_some_and(|outcome| !outcome.pass)
    })
}

/// What an outcome's error and bound are, in words.
fn how_far(outcome: &Outcome) -> String {
    match outcome.rule {
        Rule::NonFinite => {
            format!(
                "{:.0} elements are not finite where the reference is, or the other way round",
                outcome.error
            )
        }
        Rule::Exact => format!("{:.0} elements differ", outcome.error),
        _ => format!("error {:.3e}, allowed {:.3e}", outcome.error, outcome.bound),
    }
}

/// `[i, j, k]` of a flat row-major index.
fn index_text(shape: &[i64], flat: usize) -> String {
    let mut rest = flat as i64;
    let mut index = vec![0; shape.len()];
    for (slot, &extent) in index.iter_mut().zip(shape).rev() {
        *slot = rest % extent.max(1);
        rest /= extent.max(1);
    }
    let parts: Vec<String> = index.iter().map(i64::to_string).collect();
    format!("[{}]", parts.join(", "))
}

/// A content in a few words.
fn describe(drawn: &Drawn) -> String {
    let family = match drawn.content.distribution {
        Distribution::Nominal => "nominal".to_owned(),
        Distribution::Stress(s) => format!("{s:?}").to_lowercase(),
    };
    match drawn.mutation {
        Some(_) => format!("{family} with a few elements changed"),
        None => family,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_few_values_are_told_from_others() {
        let of = |count: usize, different: usize| -> Data {
            (0..count).flat_map(|i| ((i % different) as f32).to_le_bytes()).collect::<Vec<u8>>().into()
        };
        for (count, different, expected) in [
            (0, 1, true),
            (1000, 1, true),
            (1000, 63, true),
            (1000, 64, false),
            (63, 63, true),
            (100_000, 3, true),
            (100_000, 50_000, false),
        ] {
            assert_eq!(repeats(&of(count, different), 4), expected, "{count} {different}");
        }
        // Only the end differs.
        let mut late: Vec<u8> = vec![0; 3 << 20];
        late.extend((0..100).flat_map(|i| (i as f32).to_le_bytes()));
        assert!(!repeats(&late.into(), 4));
    }

    #[test]
    fn flat_indices_unfold() {
        assert_eq!(index_text(&[2, 3, 4], 23), "[1, 2, 3]");
        assert_eq!(index_text(&[5], 4), "[4]");
        assert_eq!(index_text(&[], 0), "[]");
    }
}
