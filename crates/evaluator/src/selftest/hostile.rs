//! Hostile candidates: each ends as its catalogue line says, in time, and the next evaluation is right.

use super::HostileTrial;
use super::catalogue::{Catalogue, CatalogueError, Entry};
use crate::evaluate::{self, EvaluateError, Verdict};
use crate::event::Sink;
use crate::session::Session;
use crate::settings::{Effort, Settings, Tier};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::Word;
use std::path::Path;
use std::time::Instant;

/// Time that an evaluation may take beyond its deadlines, seconds.
const GRACE: f64 = 2.0;

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

/// Runs the candidates of the catalogue in `folder` once: all of them in the first round, the hostile ones in every
/// round.
///
/// # Errors
/// When the catalogue is malformed or a seed or reference fails.
pub fn run(
    folder: &Path,
    round: usize,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Vec<HostileTrial>, HostileError> {
    let catalogue = Catalogue::load(folder)?;
    let mut trials = Vec::new();
    for (index, entry) in catalogue.entries.iter().enumerate().filter(|(_, e)| round == 1 || e.repeat) {
        trials.push(one(folder, entry, index, round, settings, sink)?);
    }
    Ok(trials)
}

/// Runs one candidate of the catalogue, and an honest one after it.
///
/// # Errors
/// When a seed or reference fails.
fn one(
    folder: &Path,
    entry: &Entry,
    index: usize,
    round: usize,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<HostileTrial, HostileError> {
    let problem = entry.problem_folder(folder);
    let failed = |source: EvaluateError| HostileError::Evaluate { candidate: entry.file.clone(), source };
    let mut settings = settings.clone();
    settings.secret = crate::dice::key(&settings.secret, &format!("hostile/{round}/{index}"));
    settings.tier = Tier::Quick;
    settings.effort = Effort::of(if entry.thorough { Tier::Default } else { Tier::Quick });
    settings.only.clone_from(&entry.scenarios);
    settings.calibrate = false;
    settings.set = None;
    let mut evaluate = |file: &Path| -> Result<(evaluate::Evaluation, f64), EvaluateError> {
        let start = Instant::now();
        let mut session = Session::open(&problem, Some(file), &settings)?;
        Ok((evaluate::evaluate(&mut session, &settings, sink)?, start.elapsed().as_secs_f64()))
    };
    let (evaluation, seconds) = evaluate(&folder.join(&entry.file)).map_err(failed)?;
    let verdict = &evaluation.verdict;
    let defences = defences(verdict);
    let honest = problem.join(
        &Session::open(&problem, None, &settings).map_err(|e| failed(e.into()))?.files.problem.seed.path,
    );
    // A seed or reference that fails right after a hostile candidate is what this looks for, not a reason to stop.
    let (next_right, next, next_seconds) = match evaluate(&honest) {
        Ok((evaluation, seconds)) => {
            let word = evaluation.verdict.word;
            let right = matches!(word, Word::Pass | Word::Unresolved);
            let said = if right { String::new() } else { describe(&evaluation.verdict) };
            (right, said, seconds)
        }
        Err(error) => (false, crate::fault::chain(&error), 0.0),
    };
    // What an evaluation of an honest candidate takes, plus one deadline, which a candidate that hangs uses up.
    let deadline = crate::session::DEADLINE.as_secs_f64();
    Ok(HostileTrial {
        candidate: entry.file.clone(),
        round,
        word: verdict.word.as_str().to_owned(),
        as_expected: entry.matches(verdict.word, &defences),
        defences,
        next_right,
        next,
        in_time: seconds <= next_seconds + deadline + GRACE,
        seconds,
    })
}

/// Defence ids of everything that weighs.
fn defences(verdict: &Verdict) -> Vec<String> {
    let mut defences: Vec<String> = weighty(verdict).map(|f| f.defence.clone()).collect();
    defences.sort();
    defences.dedup();
    defences
}

fn weighty(verdict: &Verdict) -> impl Iterator<Item = &Finding> {
    verdict
        .findings
        .iter()
        .chain(verdict.scenarios.iter().flat_map(|s| &s.findings))
        .filter(|f| f.severity > Severity::Note)
}

/// A verdict that should have passed, in one line.
fn describe(verdict: &Verdict) -> String {
    let findings: Vec<String> = weighty(verdict)
        .map(|f| format!("{} ({}) {}", f.message, f.defence, f.evidence.join("; ")))
        .collect();
    format!("{} {}", verdict.word, findings.join(", "))
}
