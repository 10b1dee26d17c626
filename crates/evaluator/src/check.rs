//! `check`: is the problem itself strong enough to prove anything?

use crate::bench::Bench;
use crate::calibration::{Calibration, UNSTEADY};
use crate::check_outputs::OutputCheck;
use crate::compare;
use crate::evaluate::EvaluateError;
use crate::event::Sink;
use crate::measure::MeasureError;
use crate::oracle::{FIXED_CONSTANTS, Oracle};
use crate::outputs::{Data, Outputs};
use crate::scenario_state::ScenarioState;
use crate::session::Session;
use crate::settings::Settings;
use crate::staging::{Constants, Drawn, Staged};
use crate::trivial::Trivial;
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{Word, word_of};
use kernelseek_core::wording::counted;
use kernelseek_device::arena::Arena;
use kernelseek_device::client::Worker;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Noise that a tolerance must reject, in units of the seed's error or the precision model's.
const NOISE: f64 = 32.0;
/// A model may be this much looser than the seed without a reason.
const MODEL_LOOSER: f64 = 4.0;

/// What `check` found about one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioCheck {
    /// Scenario id.
    pub id: String,
    /// Largest error of the seed over the outputs, relative to the output's RMS.
    pub seed_error: f64,
    /// The same of the precision model, if the problem has one.
    pub model_error: Option<f64>,
    /// Trivial candidates that the scenario accepts.
    pub accepted: Vec<Trivial>,
    /// Spread of the seed against itself between instances.
    pub aa_spread: Option<f64>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// What `check` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// PASS or FAIL.
    pub word: Word,
    /// Problem name.
    pub problem: String,
    /// Problem hash.
    pub problem_hash: String,
    /// Scenario by scenario.
    pub scenarios: Vec<ScenarioCheck>,
    /// Seed against itself, geometric mean.
    pub seed_to_itself: f64,
    /// Findings about the problem as a whole.
    pub findings: Vec<Finding>,
}

/// Checks the problem of a session.
///
/// # Errors
/// When the seed or the reference does not work at all.
pub fn check(
    session: &mut Session,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<CheckReport, EvaluateError> {
    let cases = session.cases()?;
    let bench = session.bench(&cases, sink)?;
    let mut findings = Vec::new();
    if session.files.problem.cost.is_none() {
        findings.push(
            Finding::new("check.no-cost", Severity::Warning, "the problem has no cost model")
                .with_evidence("no floor can be checked, and every verdict will say so")
                .with_next("add [cost] with flops and bytes"),
        );
    }
    if session.files.problem.held_out.is_none() {
        findings.push(
            Finding::new("check.no-held-out", Severity::Warning, "the problem has no held-out rule")
                .with_next("add [held_out] so that `--full` can tell tuning from overfitting"),
        );
    }
    let mut scenarios = Vec::new();
    let mut oracle = Oracle::new(&bench, settings);
    let mut seed: Option<Worker> = None;
    for case in &cases {
        let mut state = ScenarioState::new(case.clone());
        // One process for all of them: a GPU's driver takes most of a second to start.
        let seed = match &mut seed {
            Some(seed) => seed,
            none => none.insert(bench.spawn(&bench.seed).map_err(|source| MeasureError::Seed {
                scenario: case.id.clone(),
                doing: "while it was loaded",
                source,
            })?),
        };
        oracle.prepare(&mut state, seed, sink).map_err(MeasureError::from)?;
        scenarios.push(check_scenario(&mut state, &mut oracle, seed, &bench, session)?);
        bench.gpu_worked(&case.id)?;
    }
    drop(seed);
    let calibration = session.recalibrate(&bench, &cases, sink)?;
    for scenario in &mut scenarios {
        scenario.aa_spread = calibration.scenarios.get(&scenario.id).copied();
    }
    findings.extend(unsteady(&calibration));
    findings.extend(not_a_tie(&calibration));
    let word = scenarios.iter().map(|s| word_of(&s.findings)).chain([word_of(&findings)]).max();
    Ok(CheckReport {
        word: word.unwrap_or(Word::Pass),
        problem: session.files.problem.name.clone(),
        problem_hash: session.files.hash.clone(),
        scenarios,
        seed_to_itself: calibration.geomean,
        findings,
    })
}

/// The spread is kept and widens every later interval, so that of a busy hour should not stay.
fn unsteady(calibration: &Calibration) -> Option<Finding> {
    (calibration.pooled > UNSTEADY).then(|| {
        Finding::new("check.unsteady", Severity::Warning, "two copies of the seed are far apart in time")
            .with_evidence(format!(
                "±{:.1} % over all scenarios: no interval will be narrower",
                100.0 * calibration.pooled
            ))
            .with_next(
                "run `kernelseek check` again when the machine is quieter, or make the scenarios longer",
            )
    })
}

/// The seed against itself must be a tie.
fn not_a_tie(calibration: &Calibration) -> Option<Finding> {
    let n = calibration.scenarios.len().max(1);
    let allowed = (4.0 * calibration.pooled / (n as f64).sqrt()).max(0.01);
    (calibration.geomean.ln().abs() > allowed).then(|| {
        Finding::new("check.tie", Severity::Unproven, "the seed does not tie with itself")
            .with_evidence(format!("{:.4}× over {}", calibration.geomean, counted(n, "scenario")))
            .with_next("measure on a quieter machine, or make the scenarios longer than a few microseconds")
    })
}

fn check_scenario(
    state: &mut ScenarioState,
    oracle: &mut Oracle,
    seed: &mut Worker,
    bench: &Bench,
    session: &Session,
) -> Result<ScenarioCheck, MeasureError> {
    let content_error = |source| MeasureError::Content { scenario: state.case.id.clone(), source };
    let constants = Constants::draw(&state.case, &state.constant, FIXED_CONSTANTS, bench.gpu.as_ref())
        .map_err(content_error)?;
    let mut findings = Vec::new();
    let (mut seed_error, mut model_error) = (0.0f64, None::<f64>);
    let mut rejected: BTreeMap<&'static str, bool> = BTreeMap::new();
    let mut by_output = OutputCheck::new(state);
    let fixed = state.fixed.clone();
    // Two contents of the same distribution, so that "another content's answer" is a fair question.
    for (index, one) in fixed.iter().enumerate() {
        let mut staged = Staged::new(&state.case, bench.gpu.as_ref());
        staged
            .fill(
                &state.case,
                &state.kinds,
                Drawn { content: one.content, mutation: None },
                one.content.seed,
                Some(&constants),
            )
            .map_err(|source| MeasureError::Content { scenario: state.case.id.clone(), source })?;
        if let Some(finding) = unusable_reference(state, &one.reference) {
            findings.push(finding);
        }
        if let Some(outputs) = run_seed(seed, state, &staged, bench)? {
            seed_error = seed_error.max(compare::relative_error(state, &one.reference, &outputs));
            by_output.content(state, &one.reference, &outputs, one.content.distribution);
        }
        if bench.model.is_some() {
            let model = oracle.compute(&state.case, &staged, true, one.reference.sample)?;
            let error = compare::relative_error(state, &one.reference, &model);
            model_error = Some(model_error.unwrap_or(0.0).max(error));
        }
        let other = &fixed[(index + 1) % fixed.len()].reference;
        let mut inputs = Vec::new();
        if let Some(arena) = seed.arena_mut() {
            // Written once more: a call in place has left its answer where its input was.
            staged.load_all(&state.case, &state.kinds, arena).map_err(|e| MeasureError::gpu(state, e))?;
            inputs = input_heads(arena, &state.case);
        }
        for trivial in Trivial::ALL {
            // What candidates are measured by is the larger of the two, so that is what noise must stand out from.
            let own = seed_error.max(model_error.unwrap_or(0.0));
            let answer = trivial.answer(&state.case, &inputs, &one.reference, other, NOISE * own);
            let entry = rejected.entry(trivial.as_str()).or_insert(false);
            if !trivial.applies(&answer, &one.reference) {
                *entry = true;
                continue;
            }
            // Judged as a candidate would be, on a throw-away state with the same yardsticks.
            if compare::fails(state, &one.reference, &answer, one.content.distribution) {
                *entry = true;
            }
        }
    }
    let accepted: Vec<Trivial> =
        Trivial::ALL.into_iter().filter(|t| !rejected.get(t.as_str()).copied().unwrap_or(false)).collect();
    for trivial in &accepted {
        findings.push(
            Finding::new(
                "check.trivial",
                Severity::Fail,
                format!("the scenario accepts `{}`: {}", trivial.as_str(), trivial.reason()),
            )
            .with_next(
                "give the scenario other sizes or inputs of another distribution, tighten the tolerance, or take the scenario out",
            ),
        );
    }
    findings.extend(by_output.findings(state, bench.model.is_some()));
    if let Some(model) = model_error
        && model > MODEL_LOOSER * seed_error
        && session.files.problem.reference.model_reason.is_none()
    {
        findings.push(
            Finding::new("check.model", Severity::Fail, "the precision model is far looser than the seed")
                .with_evidence(format!("model {model:.2e}, seed {seed_error:.2e}"))
                .with_next("give `model_reason` in [reference], or round fewer intermediates"),
        );
    }
    Ok(ScenarioCheck {
        id: state.case.id.clone(),
        seed_error,
        model_error,
        accepted,
        aa_spread: None,
        findings,
    })
}

/// The seed's outputs on one staged content.
fn run_seed(
    seed: &mut Worker,
    state: &ScenarioState,
    staged: &Staged,
    bench: &Bench,
) -> Result<Option<Outputs>, MeasureError> {
    let sent = crate::request::Sent {
        entry: kernelseek_device::protocol::Entry::Main,
        case: &state.case,
        kinds: &state.kinds,
        staged: std::slice::from_ref(staged),
        slots: &[0],
        mode: crate::settings::Mode::Warm,
        column: crate::settings::Column::Call,
        deadline: 30 * bench.deadline,
    };
    let returned =
        crate::request::send(seed, &sent, &mut crate::request::Sweeper::default()).map_err(|source| {
            MeasureError::Seed { scenario: state.case.id.clone(), doing: "during a call", source }
        })?;
    Ok(returned.outputs.into_iter().next())
}

/// Bytes of a large input from which trivial answers are made.
const HEAD: usize = 1 << 20;

/// The bytes of the first slot's storages, of large ones the beginning.
fn input_heads(arena: &Arena, case: &Case) -> Vec<Vec<u8>> {
    (0..case.storages.len())
        .map(|index| match arena {
            Arena::Host(arena) => arena.data(0, index).iter().copied().take(HEAD).collect(),
            Arena::Gpu(arena) => crate::gpu_slots::head(arena, 0, index, HEAD),
        })
        .collect()
}

/// A reference that answers NaN where the tolerance has no word for it can prove nothing.
fn unusable_reference(state: &ScenarioState, reference: &Outputs) -> Option<Finding> {
    state.case.tensors.iter().enumerate().find_map(|(index, tensor)| {
        let tolerance = state.case.tolerance.get(index)?.as_ref()?;
        if !tensor.dtype.is_float() || tolerance.nonfinite_matches {
            return None;
        }
        let right = reference.tensors.get(index)?;
        // Whatever is not finite matches itself.
        let seen = Data::compare_asked(tensor.dtype, right, right, reference.asked()).ok()?;
        let bad = seen.nonfinite.matched;
        (bad > 0).then(|| {
            Finding::new(
                "check.non-finite",
                Severity::Fail,
                format!("the reference gives non-finite `{}`", tensor.name),
            )
            .with_evidence(format!("{bad} elements"))
            .with_next("bound the inputs (`extreme`, `stress`), or set nonfinite = \"match\" for this output")
        })
    })
}
