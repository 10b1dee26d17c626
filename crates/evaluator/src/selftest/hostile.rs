//! Hostile candidates: each ends as its catalogue line says, in time, and the next evaluation is right.

use super::HostileTrial;
use super::budget::Budget;
use super::catalogue::{Catalogue, CatalogueError, Entry};
use crate::evaluate::{self, EvaluateError, Evaluation, Verdict};
use crate::event::Sink;
use crate::problem_files::ProblemFiles;
use crate::session::SessionError;
use crate::settings::{Effort, Settings, Tier};
use crate::stand::Stand;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::problem::Target;
use kernelseek_core::verdict::Word;
use kernelseek_numerics::stats;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Time that an evaluation may take beyond its deadlines, seconds. On a GPU the driver takes seconds to end a process whose
/// kernel hangs.
const GRACE: f64 = 2.0;
const GPU_GRACE: f64 = 5.0;
/// Ratio that a seed may have to itself, either way, where one worker instance leaves it without an interval.
const SAME: f64 = 1.1;

/// Why a round could not be run.
#[derive(Debug, thiserror::Error)]
pub enum HostileError {
    /// The catalogue is not usable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// An honest part failed.
    #[error("the honest part of `{candidate}` failed")]
    Evaluate {
        /// The candidate.
        candidate: String,
        /// Why.
        #[source]
        source: EvaluateError,
    },
}

/// Runs the candidates of the catalogue in `folder` up to round `rounds`: all of them in the first, the hostile ones in every
/// round. What is in `done` is not run again; `kept` is told after every trial.
///
/// # Errors
/// When the catalogue is malformed or a seed or reference fails.
#[expect(clippy::too_many_arguments, reason = "one call site")]
pub fn run(
    folder: &Path,
    rounds: usize,
    settings: &Settings,
    done: &mut Vec<HostileTrial>,
    stand: &mut Stand,
    budget: &mut Budget,
    sink: &mut dyn Sink,
    mut kept: impl FnMut(&[HostileTrial]),
) -> Result<(), HostileError> {
    let catalogue = Catalogue::load(folder)?;
    let todo: Vec<(usize, usize, &Entry)> = (1..=rounds)
        .flat_map(|round| {
            let entries = catalogue.entries.iter().enumerate();
            entries.filter(move |(_, e)| round == 1 || e.repeat).map(move |(at, e)| (round, at, e))
        })
        .filter(|(round, _, entry)| !is_done(done, &entry.file, *round))
        .collect();
    let mut ahead: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for (_, _, entry) in &todo {
        ahead.entry(entry.problem_folder(folder)).or_default().push(folder.join(&entry.file));
    }
    for (problem, candidates) in ahead {
        build_ahead(&problem, &candidates, settings, stand, sink)
            .map_err(|source| HostileError::Evaluate { candidate: "all of them".into(), source })?;
    }
    for (round, index, entry) in todo {
        if !budget.allows() {
            return Ok(());
        }
        let start = Instant::now();
        done.push(one(folder, entry, index, round, settings, stand, sink)?);
        kept(done);
        budget.took(start.elapsed());
    }
    Ok(())
}

/// Whether a candidate's trial of this round is there already.
pub(super) fn is_done(done: &[HostileTrial], candidate: &str, round: usize) -> bool {
    done.iter().any(|t| t.candidate == candidate && t.round == round)
}

/// Compiles candidates of a problem whose target is a GPU, many at once: one after the other they take longer than what is
/// measured. Other problems' candidates take no time to compile.
pub(super) fn build_ahead(
    problem: &Path,
    candidates: &[PathBuf],
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<(), EvaluateError> {
    let mut session = stand.open(problem, None, settings)?;
    if session.files.problem.target == Target::Cuda {
        session.build_candidates_ahead(candidates, sink)?;
        stand.keep(&session);
    }
    Ok(())
}

/// Runs one candidate of the catalogue, and an honest one after it.
fn one(
    folder: &Path,
    entry: &Entry,
    index: usize,
    round: usize,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<HostileTrial, HostileError> {
    let mut settings = settings.clone();
    settings.secret = crate::dice::key(&settings.secret, &format!("hostile/{round}/{index}"));
    settings.effort = Effort::of(if entry.thorough { Tier::Default } else { Tier::Quick });
    settings.only.clone_from(&entry.scenarios);
    let trial = Trial {
        problem: &entry.problem_folder(folder),
        file: &folder.join(&entry.file),
        name: &entry.file,
        round,
        expected: &|word, defences: &Defences| entry.matches(word, &defences.weighty),
    };
    trial
        .run(settings, stand, sink)
        .map_err(|source| HostileError::Evaluate { candidate: entry.file.clone(), source })
}

/// One bad candidate, and an honest one after it.
pub(super) struct Trial<'a> {
    pub(super) problem: &'a Path,
    pub(super) file: &'a Path,
    pub(super) name: &'a str,
    pub(super) round: usize,
    /// Whether a word with these defences is right.
    pub(super) expected: &'a dyn Fn(Word, &Defences) -> bool,
}

/// Defence ids of a verdict.
pub(super) struct Defences {
    /// Of everything that weighs.
    pub(super) weighty: Vec<String>,
    /// Of everything.
    pub(super) all: Vec<String>,
}

impl Trial<'_> {
    /// Evaluates both. On a GPU the honest one has a single worker instance: what is asked is whether the machine still
    /// computes and measures, and starting a driver takes most of the time.
    pub(super) fn run(
        &self,
        settings: Settings,
        stand: &mut Stand,
        sink: &mut dyn Sink,
    ) -> Result<HostileTrial, EvaluateError> {
        let settings = Settings { tier: Tier::Quick, calibrate: false, set: None, ..settings };
        let files = ProblemFiles::load(self.problem, None).map_err(SessionError::from)?;
        let on_gpu = files.problem.target == Target::Cuda;
        let honest = self.problem.join(&files.problem.seed.path);
        let mut evaluate = |file: &Path, settings: &Settings| -> Result<(Evaluation, f64), EvaluateError> {
            let start = Instant::now();
            let mut session = stand.open(self.problem, Some(file), settings)?;
            let evaluated = evaluate::evaluate(&mut session, settings, sink);
            stand.keep(&session);
            Ok((evaluated?, start.elapsed().as_secs_f64()))
        };
        let (evaluation, seconds) = evaluate(self.file, &settings)?;
        let verdict = &evaluation.verdict;
        let defences = Defences::of(verdict);
        let mut next_settings = settings.clone();
        if on_gpu {
            next_settings.effort.instances = 1;
        }
        // A seed or reference that fails right after a hostile candidate is what this looks for, not a reason to stop.
        let (next_right, next, next_seconds) = match evaluate(&honest, &next_settings) {
            Ok((evaluation, seconds)) => match wrong(&evaluation, next_settings.effort.instances) {
                None => (true, String::new(), seconds),
                Some(said) => (false, said, seconds),
            },
            Err(error) => (false, crate::fault::chain(&error), 0.0),
        };
        // What an evaluation of an honest candidate takes, plus one deadline, which a candidate that hangs uses up.
        let instances = settings.effort.instances as f64 / next_settings.effort.instances.max(1) as f64;
        let deadline = crate::session::DEADLINE.as_secs_f64();
        let grace = if on_gpu { GPU_GRACE } else { GRACE };
        Ok(HostileTrial {
            candidate: self.name.to_owned(),
            round: self.round,
            word: verdict.word.as_str().to_owned(),
            as_expected: (self.expected)(verdict.word, &defences),
            defences: defences.weighty,
            next_right,
            next,
            in_time: seconds <= next_seconds * instances.max(1.0) + deadline + grace,
            seconds,
        })
    }
}

/// What is wrong with the verdict on an honest candidate; `None` when it is right. One instance of each side makes no
/// interval, and the verdict says so: then every check must have passed, and the pairs must say that nothing differs.
fn wrong(evaluation: &Evaluation, instances: usize) -> Option<String> {
    let verdict = &evaluation.verdict;
    if matches!(verdict.word, Word::Pass | Word::Unresolved) {
        return None;
    }
    let only_without_interval = instances < 2 && weighty(verdict).all(|f| f.defence == "timed.nothing");
    if !only_without_interval {
        return Some(describe(verdict));
    }
    let off = evaluation.raw.iter().find_map(|(scenario, raw)| {
        let ratios: Vec<f64> =
            raw.iter().flat_map(|i| &i.pairs).map(|p| p.seed_ns / p.candidate_ns).collect();
        let median = stats::median(&ratios).unwrap_or(f64::NAN);
        let same = (1.0 / SAME..=SAME).contains(&median);
        (!same).then(|| format!("`{scenario}`: {median:.3} times as fast as itself"))
    });
    match off {
        None if evaluation.raw.is_empty() => Some("nothing was measured".to_owned()),
        off => off,
    }
}

impl Defences {
    fn of(verdict: &Verdict) -> Self {
        let sorted = |findings: &mut dyn Iterator<Item = &Finding>| {
            let mut ids: Vec<String> = findings.map(|f| f.defence.clone()).collect();
            ids.sort();
            ids.dedup();
            ids
        };
        Self { weighty: sorted(&mut weighty(verdict)), all: sorted(&mut findings(verdict)) }
    }
}

fn findings(verdict: &Verdict) -> impl Iterator<Item = &Finding> {
    verdict.findings.iter().chain(verdict.scenarios.iter().flat_map(|s| &s.findings))
}

fn weighty(verdict: &Verdict) -> impl Iterator<Item = &Finding> {
    findings(verdict).filter(|f| f.severity > Severity::Note)
}

/// A verdict that should have passed, in one line.
fn describe(verdict: &Verdict) -> String {
    let findings: Vec<String> = weighty(verdict)
        .map(|f| format!("{} ({}) {}", f.message, f.defence, f.evidence.join("; ")))
        .collect();
    format!("{} {}", verdict.word, findings.join(", "))
}
