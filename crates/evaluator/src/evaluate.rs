//! One evaluation: build → inspect → check and time → judge.

use crate::alike;
use crate::audit;
use crate::calibration::{Calibration, UNSTEADY};
use crate::event::{Event, Sink};
use crate::gpu_hold::GpuHold;
use crate::held_out;
use crate::judge::{self, Terms};
use crate::measure::{MeasureError, Measurer};
use crate::oracle::Oracle;
use crate::request::Sweeper;
use crate::requests;
use crate::sanitize;
use crate::scenario_state::{Instance, ScenarioState};
use crate::session::{Session, SessionError};
use crate::settings::{Column, Mode, Settings, Tier};
use crate::views;
use crate::work::{self, Work};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::kernel_file::Tuned;
use kernelseek_core::problem::Target;
use kernelseek_core::verdict::{
    self, HeldOut, Ratio, ScenarioVerdict, Stage, Trust, Word, word_of, word_of_all,
};
use kernelseek_core::wording::counted;
use kernelseek_device::cuda::GpuIdentity;
use kernelseek_device::peaks::Peaks;
use kernelseek_device::topology::CpuIdentity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;

/// Why there is no verdict at all.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The problem, the seed or the toolchain is not usable.
    #[error(transparent)]
    Session(Box<SessionError>),
    /// The seed or the reference failed.
    #[error(transparent)]
    Measure(Box<MeasureError>),
}

impl From<SessionError> for EvaluateError {
    fn from(error: SessionError) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<MeasureError> for EvaluateError {
    fn from(error: MeasureError) -> Self {
        Self::Measure(Box::new(error))
    }
}

/// The verdict of an evaluation, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Version of this form.
    pub format: u32,
    /// Word.
    pub word: Word,
    /// Last stage that every scenario passed.
    pub passed: Stage,
    /// Problem name.
    pub problem: String,
    /// Problem hash.
    pub problem_hash: String,
    /// Scenario set.
    pub set: String,
    /// Candidate file as the caller named it.
    pub candidate: String,
    /// Candidate hash; empty if it could not be built.
    pub candidate_hash: String,
    /// Seed hash.
    pub seed_hash: String,
    /// Tier.
    pub tier: Tier,
    /// Mode.
    pub mode: Mode,
    /// Mode, and the column where it is not the one that counts: `cold`, `cold graph`.
    pub timed: String,
    /// Timed column: the CPU target has no stream, so the whole call is what is timed there.
    pub column: String,
    /// Where the times are from.
    pub device: CpuIdentity,
    /// The GPU, where the calls ran on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuIdentity>,
    /// How much of the trust model held.
    pub trust: Trust,
    /// Sandbox layers of the candidate's worker, in words.
    pub layers: Vec<String>,
    /// Compiler.
    pub compiler: String,
    /// Findings about the candidate as a whole.
    pub findings: Vec<Finding>,
    /// How the candidate was built, if it has a kernel file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunables: Option<Tuned>,
    /// Verdict on each scenario, worst first.
    pub scenarios: Vec<ScenarioVerdict>,
    /// Geometric mean of the ratios and its interval.
    pub geomean: Option<Ratio>,
    /// Scenarios without a ratio.
    pub without_ratio: usize,
    /// Standard deviation of the seed against itself between instances.
    pub aa_spread: f64,
    /// Held-out scenarios, for `--full`.
    pub held_out: Option<HeldOut>,
    /// What the reader should know that is no finding.
    pub notes: Vec<String>,
    /// The one next step.
    pub next: Option<String>,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// A verdict with the raw measurement behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// Raw pairs of every scenario.
    pub raw: BTreeMap<String, Vec<Instance>>,
    /// Spread of the seed against itself that each scenario's interval was widened by.
    #[serde(default)]
    pub spreads: BTreeMap<String, f64>,
    /// On a GPU, how long the supervisor's own kernel took right after the seed's and the candidate's requests, median
    /// nanoseconds: what shows work that was left running.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub canaries: BTreeMap<String, [f64; 2]>,
}

/// Evaluates a session's candidate.
///
/// # Errors
/// When there can be no verdict: the seed, the reference or the harness itself failed. Whatever the candidate does
/// wrong is in the verdict.
pub fn evaluate(
    session: &mut Session,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Evaluation, EvaluateError> {
    let start = Instant::now();
    let settings = &settings.for_target(session.files.problem.target);
    let mut verdict = blank(session, settings);
    let cases = session.cases()?;
    let artifact = match session.candidate(sink)? {
        Ok(artifact) => artifact,
        Err(findings) => {
            verdict.candidate_hash = session.candidate_hash();
            verdict.findings = findings;
            return Ok(finish(verdict, BTreeMap::new(), start));
        }
    };
    verdict.candidate_hash = artifact.hash().to_owned();
    verdict.tunables = session.tuned().cloned();
    verdict.findings = session.inspect(sink)?;
    if word_of(&verdict.findings) == Word::Fail {
        return Ok(finish(verdict, BTreeMap::new(), start));
    }
    sink.on(&Event::Problem { name: verdict.problem.clone(), scenarios: cases.len() });
    let bench = session.bench(&cases, sink)?;
    // Known once the bench has built it.
    verdict.seed_hash = session.seed_hash();
    let mut peaks = session.peaks(sink);
    let calibration = session.calibration(&bench, &cases, sink)?;
    let terms_with = |peaks: Peaks, case: &str| Terms {
        effort: settings.effort,
        peaks,
        threads: bench.threads,
        mode: settings.mode,
        aa_spread: calibration.spread(case),
    };
    let mut oracle = Oracle::new(&bench, settings);
    let mut measurer = Measurer {
        bench: &bench,
        settings,
        oracle: &mut oracle,
        sweeper: Sweeper::default(),
        candidate: artifact,
        label: "visible",
        mode: settings.mode,
        column: settings.column,
        stream: crate::dice::key(&settings.secret, "visible"),
        layers: None,
        ahead: std::collections::VecDeque::new(),
        leaving: None,
        places: None,
        futile: 0,
    };
    let mut states = measure_all(&mut measurer, cases, Some(&calibration), sink)?;
    verdict.findings.extend(session.gpu_hold().and_then(GpuHold::foreign));
    verdict.gpu = session.gpu_identity();
    let layers = measurer.layers.take();
    let below_floor = |peaks: Peaks| {
        states.iter().any(|s| {
            judge::scenario(s, &terms_with(peaks, &s.case.id))
                .findings
                .iter()
                .any(|f| f.defence == "plausible.floor")
        })
    };
    if below_floor(peaks) {
        peaks = session.measure_peaks(sink);
    }
    let terms = |case: &str| terms_with(peaks, case);
    audit_suspicious(&mut measurer, &mut states, settings, &terms, sink)?;
    let mut scenarios: Vec<ScenarioVerdict> =
        states.iter().map(|s| judge::scenario(s, &terms(&s.case.id))).collect();
    alike::relate(&states, &mut scenarios, settings.effort.confidence);
    for scenario in &scenarios {
        sink.on(&Event::Scenario(Box::new(scenario.clone())));
    }
    let raw = states.iter().map(|s| (s.case.id.clone(), s.instances.clone())).collect();
    let spreads = states.iter().map(|s| (s.case.id.clone(), calibration.spread(&s.case.id))).collect();
    let canaries = states.iter().filter_map(|s| Some((s.case.id.clone(), s.canary.medians()?))).collect();
    verdict.scenarios = scenarios;
    verdict.notes.extend(parts_note(&states));
    if settings.tier == Tier::Full {
        full_extras(&mut verdict, &mut measurer, session, settings, &terms, sink)?;
    }
    crate::cuda_sanitize::extend(&mut verdict, session, settings, sink)?;
    verdict.aa_spread = calibration.pooled;
    describe_sandbox(&mut verdict, layers.as_ref(), settings);
    if let Some(finding) = session.changed_since() {
        verdict.findings.push(finding);
        verdict.word = Word::Stale;
    }
    Ok(Evaluation { spreads, canaries, ..finish(verdict, raw, start) })
}

/// Where the reference was asked for parts of its answers.
fn parts_note(states: &[ScenarioState]) -> Option<String> {
    let sample = |s: &ScenarioState| s.fixed.first().and_then(|f| f.reference.sample);
    let asked: Vec<u32> = states.iter().filter_map(sample).map(|s| s.one_in).collect();
    let (most, scenarios) = (asked.iter().max()?, counted(asked.len(), "scenario"));
    Some(format!(
        "in {scenarios} the reference answered a secret part, one unit of its work in up to {most}; the seed's answers are compared whole"
    ))
}

/// Measures every instance of every case. On a GPU a calibration says how many pairs each needs.
pub(crate) fn measure_all(
    measurer: &mut Measurer<'_>,
    cases: Vec<Case>,
    calibration: Option<&Calibration>,
    sink: &mut dyn Sink,
) -> Result<Vec<ScenarioState>, MeasureError> {
    let mut states: Vec<ScenarioState> = cases.into_iter().map(ScenarioState::new).collect();
    let effort = measurer.settings.effort;
    let on_gpu = measurer.bench.gpu.is_some();
    for state in &mut states {
        state.column = measurer.column;
    }
    let instances = effort.instances;
    measurer.find_places(&states);
    measurer.begin(instances, &mut states, sink)?;
    let share = work::share(&effort, states.len());
    for state in &mut states {
        let noise = calibration.filter(|_| on_gpu).and_then(|c| c.noise.get(&state.case.id).copied());
        let usual = Work::usual(&effort, requests::pairs(&effort, noise));
        let call_ns = noise.map(|n| n.call_ns).or(state.seed_ns).filter(|_| on_gpu);
        state.work = call_ns.map_or(usual, |ns| usual.within(ns, effort.request_budget, share));
    }
    for index in 0..instances {
        if states.iter().all(ScenarioState::is_dead) {
            break;
        }
        sink.on(&Event::Instance { index: index + 1, of: instances });
        measurer.instance(index, &mut states, sink)?;
    }
    measurer.give_up_ahead();
    Ok(states)
}

/// Audits the scenarios whose win is suspicious: a ratio above the threshold times the incumbent's aggregate, which
/// without a campaign is the seed's own, 1.
fn audit_suspicious(
    measurer: &mut Measurer<'_>,
    states: &mut [ScenarioState],
    settings: &Settings,
    terms: &dyn Fn(&str) -> Terms,
    sink: &mut dyn Sink,
) -> Result<(), MeasureError> {
    for state in states.iter_mut().filter(|s| !s.is_dead()) {
        let Some(ratio) = judge::ratio(state, &terms(&state.case.id)) else { continue };
        if ratio.point > settings.suspicious {
            sink.on(&Event::Auditing { scenario: state.case.id.clone(), ratio: ratio.point });
            audit::audit(measurer, state, ratio, sink)?;
            measurer.bench.gpu_worked(&state.case.id)?;
        }
    }
    Ok(())
}

/// What `--full` adds: the held-out scenarios, the sanitizers and the other mode on the quick scenarios.
fn full_extras(
    verdict: &mut Verdict,
    measurer: &mut Measurer<'_>,
    session: &Session,
    settings: &Settings,
    terms: &dyn Fn(&str) -> Terms,
    sink: &mut dyn Sink,
) -> Result<(), EvaluateError> {
    held_out::look(verdict, measurer, session, terms, sink)?;
    let sanitized = if measurer.bench.gpu.is_some() { Ok(None) } else { session.sanitized(sink) };
    match sanitized {
        Ok(Some((artifact, runtime))) => {
            match sanitize::run(measurer.bench, settings, &artifact, &runtime, &session.quick_cases()?) {
                sanitize::Outcome::Clean => {
                    verdict.notes.push("sanitizers (address, undefined): clean".to_owned());
                }
                sanitize::Outcome::Report(finding) => verdict.findings.push(finding),
                sanitize::Outcome::Absent(why) => {
                    verdict.notes.push(format!("the sanitizers could not run: {why}"));
                }
            }
        }
        // Those of a GPU run when they are asked for.
        Ok(None) if measurer.bench.gpu.is_some() => {}
        Ok(None) => verdict.notes.push("no sanitizer runtime was found".to_owned()),
        Err(_) => verdict.notes.push("the candidate does not build with sanitizers".to_owned()),
    }
    if measurer.bench.gpu.is_some() {
        for (mode, column) in views::others(settings.mode, settings.column) {
            views::look_again(verdict, measurer, session, (mode, column), terms, sink)?;
        }
    } else {
        views::look_again(verdict, measurer, session, (settings.mode.other(), settings.column), terms, sink)?;
    }
    measurer.mode = settings.mode;
    Ok(())
}

fn blank(session: &Session, settings: &Settings) -> Verdict {
    let mut notes = Vec::new();
    if session.files.problem.cost.is_none() {
        notes.push("no cost model: no floor was checked".to_owned());
    }
    Verdict {
        format: verdict::FORMAT,
        word: Word::Pass,
        passed: Stage::Plausible,
        problem: session.files.problem.name.clone(),
        problem_hash: session.files.hash.clone(),
        set: session.files.set.clone(),
        candidate: session.candidate_name(),
        candidate_hash: String::new(),
        seed_hash: session.seed_hash(),
        tier: settings.tier,
        mode: settings.mode,
        timed: match session.files.problem.target {
            Target::Cpu => settings.mode.as_str().to_owned(),
            Target::Cuda => settings.mode_and_column(),
        },
        column: match session.files.problem.target {
            Target::Cpu => Column::Call,
            Target::Cuda => settings.column,
        }
        .as_str()
        .to_owned(),
        device: CpuIdentity::read(),
        gpu: session.gpu_identity(),
        trust: Trust::Reduced,
        layers: Vec::new(),
        compiler: session.compiler(),
        findings: Vec::new(),
        tunables: None,
        scenarios: Vec::new(),
        geomean: None,
        without_ratio: 0,
        aa_spread: 0.0,
        held_out: None,
        notes,
        next: None,
        seconds: 0.0,
    }
}

fn describe_sandbox(
    verdict: &mut Verdict,
    layers: Option<&kernelseek_sandbox::report::Layers>,
    settings: &Settings,
) {
    let Some(layers) = layers else { return };
    verdict.layers = layers.all().map(|(name, state)| format!("{name}: {state}")).collect();
    verdict.trust = if layers.complete() { Trust::Full } else { Trust::Reduced };
    if verdict.trust == Trust::Reduced && settings.lockdown {
        verdict
            .notes
            .push("a sandbox layer is missing on this machine: `kernelseek doctor` says which".to_owned());
    }
}

fn finish(mut verdict: Verdict, raw: BTreeMap<String, Vec<Instance>>, start: Instant) -> Evaluation {
    let ratios: Vec<Ratio> = verdict.scenarios.iter().filter_map(|s| s.ratio).collect();
    verdict.geomean = verdict::geomean(&ratios);
    verdict.without_ratio = verdict.scenarios.len() - ratios.len();
    if !verdict.scenarios.is_empty() && verdict.scenarios.iter().all(|s| s.fallback) {
        verdict.findings.push(
            Finding::new("correct.all-declined", Severity::Unproven, "the candidate declines every scenario")
                .with_next("run at least one scenario; the seed runs the others"),
        );
    }
    if verdict.word != Word::Stale {
        verdict.word = word_of_all(&verdict.findings, &verdict.scenarios);
    }
    verdict.findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    let worst_stage = |f: &Finding| match f.defence.split('.').next() {
        Some("built") => Stage::Built,
        Some("allowed") => Stage::Allowed,
        Some("correct") => Stage::Correct,
        Some("timed") => Stage::Timed,
        _ => Stage::Plausible,
    };
    let blocking =
        verdict.findings.iter().filter(|f| f.severity >= Severity::Unproven).map(worst_stage).min();
    verdict.passed = match blocking {
        Some(stage) => previous(stage),
        None => verdict.scenarios.iter().map(|s| s.passed).min().unwrap_or(Stage::Plausible),
    };
    // Worst word first; within it the slowest first: what a reader wants to see on top.
    verdict.scenarios.sort_by(|a, b| {
        let key = |s: &ScenarioVerdict| s.ratio.map_or(0.0, |r| r.point);
        b.word.cmp(&a.word).then(key(a).total_cmp(&key(b)))
    });
    verdict.next = verdict
        .findings
        .iter()
        .chain(verdict.scenarios.iter().flat_map(|s| &s.findings))
        .filter(|f| f.severity >= Severity::Unproven)
        // The first of the worst, which is the one that the report shows first.
        .rev()
        .max_by_key(|f| f.severity)
        .and_then(|f| f.next.clone())
        .or_else(|| {
            (verdict.word == Word::Unresolved).then(|| {
                if verdict.aa_spread > UNSTEADY {
                    // It is measured again a few times by itself, and then kept.
                    "run `kernelseek check` when the machine is quieter: the seed's spread against itself was measured \
                     while it was busy, and widens every interval"
                        .to_owned()
                } else {
                    too_short(&verdict).unwrap_or_else(|| "evaluate again when the machine is quieter".to_owned())
                }
            })
        });
    verdict.seconds = start.elapsed().as_secs_f64();
    Evaluation { verdict, raw, spreads: BTreeMap::new(), canaries: BTreeMap::new() }
}

/// Calls shorter than this are rarely told apart on a shared machine, nanoseconds.
const SHORT_NS: f64 = 5_000.0;

/// What to do where only scenarios with very short calls are unresolved.
fn too_short(verdict: &Verdict) -> Option<String> {
    let unresolved = || verdict.scenarios.iter().filter(|s| s.word == Word::Unresolved);
    let short = |s: &ScenarioVerdict| s.seed_ns.is_some_and(|ns| ns < SHORT_NS);
    let first = unresolved().next()?;
    let micros = first.seed_ns? / 1e3;
    unresolved().all(short).then(|| {
        format!(
            "`{}` takes {micros:.1} µs, too short to tell here: give it larger sizes, or leave it out of the goal's \
             speedup clauses",
            first.id
        )
    })
}

/// The stage before the one that blocks; a candidate that was not built has passed none, which is shown as `built`
/// with the word FAIL.
fn previous(stage: Stage) -> Stage {
    match stage {
        Stage::Built | Stage::Allowed => Stage::Built,
        Stage::Correct => Stage::Allowed,
        Stage::Timed => Stage::Correct,
        Stage::Plausible => Stage::Timed,
    }
}

/// Measures the seed against itself on `cases`.
///
/// # Errors
/// When the seed or the reference fails.
pub(crate) fn calibrate(
    bench: &crate::bench::Bench,
    settings: &Settings,
    cases: Vec<Case>,
    sink: &mut dyn Sink,
) -> Result<Calibration, MeasureError> {
    let mut settings = settings.clone();
    settings.effort.instances = 4;
    settings.effort.pairs = settings.effort.pairs.min(4);
    settings.effort.references = 0;
    let mut oracle = Oracle::new(bench, &settings);
    let mut measurer = Measurer {
        bench,
        settings: &settings,
        oracle: &mut oracle,
        sweeper: Sweeper::default(),
        candidate: bench.seed.clone(),
        label: "calibration",
        mode: settings.mode,
        column: settings.column,
        stream: crate::dice::key(&settings.secret, "calibration"),
        layers: None,
        ahead: std::collections::VecDeque::new(),
        leaving: None,
        places: None,
        futile: 0,
    };
    let states = measure_all(&mut measurer, cases, None, sink)?;
    // A seed that does not pass its own checks can be nobody's partner.
    for state in &states {
        if let Some(finding) = state.findings.iter().find(|f| f.severity == Severity::Fail) {
            let mut message = format!("{} ({})", finding.message, finding.defence);
            if let Some(evidence) = finding.evidence.first() {
                message = format!("{message}: {evidence}");
            }
            return Err(MeasureError::SeedFails { scenario: state.case.id.clone(), message });
        }
    }
    Ok(Calibration::of(&states))
}
