//! Tuning played through: it edits the kernel file and the routes, asks for evaluations, and ends with the best state in
//! the workspace. What evaluates and where the files lie is the caller's.

use crate::arms::{self, Assignment};
use crate::halving::{Budget, Halving, Pick, Space, Step, Told, Trial};
use crate::header;
use crate::known;
use crate::outcome::Outcome;
use kernelseek_core::case::Case;
use kernelseek_core::decision::Layer;
use kernelseek_core::diagnostic::Diagnostic;
use kernelseek_core::kernel_file::{self, Chosen, EditError, KernelFile, Tuned};
use kernelseek_core::problem::Problem;
use kernelseek_core::scenario::Scenario;
use kernelseek_core::verdict::Ratio;
use kernelseek_core::wording::counted;
use std::collections::{BTreeMap, BTreeSet};

/// An evaluation to make of the workspace as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// With the effort of a default evaluation; of a quick one otherwise.
    pub whole: bool,
    /// The scenarios.
    pub only: Vec<String>,
}

/// What an evaluation says.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Ratio to the seed by scenario. A scenario that was declined or is not proven has none.
    pub ratios: BTreeMap<String, Ratio>,
    /// Why the verdict is FAIL, if it is.
    pub failed: Option<String>,
    /// How it was built.
    pub tuned: Option<Tuned>,
    /// Seconds it took.
    pub seconds: f64,
}

/// What evaluates.
pub trait Bench {
    /// Why there is no answer.
    type Error;
    /// Evaluates the workspace as it is.
    ///
    /// # Errors
    /// When there is no verdict.
    fn evaluate(&mut self, request: &Request) -> Result<Measured, Self::Error>;
    /// States what the next edit is expected to do.
    ///
    /// # Errors
    /// When it cannot be written down.
    fn state_hypothesis(&mut self, text: &str, layer: Layer, expect: Option<f64>) -> Result<(), Self::Error>;
    /// Says a line about what happens.
    fn say(&mut self, line: &str);
}

/// The two files of the candidate that are edited.
pub trait Files {
    /// Why they cannot be written.
    type Error;
    /// Makes the kernel file say this, and the header with the routes this; without a header there is none.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write(&mut self, kernel: &str, routes: Option<&str>) -> Result<(), Self::Error>;
}

/// What is tuned.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Its scenarios.
    pub scenarios: &'a [Scenario],
    /// The same, resolved, in the same order.
    pub cases: &'a [Case],
    /// The kernel file as it was found.
    pub kernel: &'a KernelFile,
    /// The header with the routes as it was found.
    pub routes: Option<&'a str>,
    /// The flags that may be chosen.
    pub allowed: &'a [String],
}

/// Why tuning stopped without an outcome. The files are as they were found.
#[derive(Debug)]
pub enum TuneError<B, F> {
    /// A condition cannot be evaluated.
    Condition(Box<Diagnostic>),
    /// The kernel file cannot be edited.
    Edit(EditError),
    /// What evaluates failed.
    Bench(B),
    /// The files cannot be written.
    Files(F),
}

/// An outcome with the files that go with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// What came of it.
    pub outcome: Outcome,
    /// Text of the kernel file now.
    pub kernel: String,
    /// Text of the header with the routes now.
    pub routes: Option<String>,
}

/// The last words of a tuner that found nothing, or that is done.
#[must_use]
pub fn last_words(outcome: &Outcome) -> String {
    match &outcome.gain {
        Some(_) => format!("{}: I stop", outcome.words),
        None => format!("{}; the kernel is as it was: I stop", outcome.words),
    }
}

/// Tunes the subject. It ends with the best state in the files: what was chosen and confirmed, or what was found there.
///
/// # Errors
/// [`TuneError`]; the files are put back as they were found, if they can be written.
pub fn tune<B: Bench, F: Files>(
    bench: &mut B,
    files: &mut F,
    subject: &Subject<'_>,
    budget: Budget,
) -> Result<Tuning, TuneError<B::Error, F::Error>> {
    let outcome = played(bench, files, subject, budget);
    if !matches!(&outcome, Ok(tuning) if tuning.outcome.gain.is_some()) {
        let back = files.write(subject.kernel.source.text(), subject.routes);
        if outcome.is_ok() {
            back.map_err(TuneError::Files)?;
        }
    }
    outcome
}

fn played<B: Bench, F: Files>(
    bench: &mut B,
    files: &mut F,
    subject: &Subject<'_>,
    budget: Budget,
) -> Result<Tuning, TuneError<B::Error, F::Error>> {
    let space = space(subject).map_err(TuneError::Condition)?;
    let all = space.arms.clone();
    let mut halving = Halving::new(space, budget);
    let mut rung = String::new();
    loop {
        let trial = match halving.step() {
            Step::Try(trial) => trial,
            Step::Done(decision) => {
                bench.say(&decision.outcome.words);
                let (kernel, routes) = match &decision.chosen {
                    None => (subject.kernel.source.text().to_owned(), subject.routes.map(str::to_owned)),
                    Some((pick, flags)) => {
                        state(subject, halving.arms(), pick, flags).map_err(TuneError::Edit)?
                    }
                };
                files.write(&kernel, routes.as_deref()).map_err(TuneError::Files)?;
                return Ok(Tuning { outcome: decision.outcome, kernel, routes });
            }
        };
        if trial.rung != rung {
            rung.clone_from(&trial.rung);
            let (text, layer) = hypothesis(&trial, halving.standing(), all.len());
            bench.state_hypothesis(&text, layer, None).map_err(TuneError::Bench)?;
        }
        let (kernel, routes) =
            state(subject, halving.arms(), &trial.pick, &trial.flags).map_err(TuneError::Edit)?;
        files.write(&kernel, routes.as_deref()).map_err(TuneError::Files)?;
        let request = Request { whole: trial.whole, only: trial.only.clone() };
        let measured = bench.evaluate(&request).map_err(TuneError::Bench)?;
        bench.say(&said(&trial, &measured));
        halving.told(&Told {
            ratios: measured.ratios,
            failed: measured.failed,
            seconds: measured.seconds,
            routable: measured.tuned.is_some_and(|t| t.routable),
        });
    }
}

/// What may be tried, and where.
///
/// # Errors
/// When a condition of the kernel file cannot be evaluated.
pub fn space(subject: &Subject<'_>) -> Result<Space, Box<Diagnostic>> {
    let (features, spots) = known::spots(subject.cases);
    let arms = arms::assignments(subject.kernel);
    let mut permitted = Vec::with_capacity(arms.len());
    for arm in &arms {
        let mut ids = BTreeSet::new();
        for scenario in subject.scenarios {
            if arms::permits(subject.kernel, arm, &scenario.values)? {
                ids.insert(scenario.id.clone());
            }
        }
        permitted.push(ids);
    }
    let has = &subject.kernel.chosen.flags;
    let flags = subject.allowed.iter().filter(|f| !has.contains(f)).cloned().collect();
    Ok(Space { features, spots, arms, permitted, flags })
}

/// The kernel file of every assignment that may be tried, without flags: what can be compiled before it is measured.
///
/// # Errors
/// When the kernel file cannot be edited.
pub fn alternatives(subject: &Subject<'_>) -> Result<Vec<String>, EditError> {
    let arms = arms::assignments(subject.kernel);
    (0..arms.len()).map(|arm| Ok(state(subject, &arms, &Pick::One(arm), &[])?.0)).collect()
}

/// The two files for a pick.
fn state(
    subject: &Subject<'_>,
    arms: &[Assignment],
    pick: &Pick,
    flags: &[String],
) -> Result<(String, Option<String>), EditError> {
    let kernel = subject.kernel;
    let found = || subject.routes.map(str::to_owned);
    let with = |set: Assignment, routes: bool| {
        let set =
            set.into_iter().filter(|(n, v)| kernel.tunable(n).is_some_and(|t| t.default != *v)).collect();
        let flags = kernel.chosen.flags.iter().chain(flags).cloned().collect();
        kernel_file::with_choice(subject.problem, kernel, &Chosen { set, routes, flags })
    };
    match pick {
        Pick::Home => Ok((kernel.source.text().to_owned(), found())),
        Pick::One(arm) => Ok((with(arms.get(*arm).cloned().unwrap_or_default(), false)?, found())),
        Pick::Routed(routes) => {
            let header = header::routed(&subject.problem.name, kernel, routes);
            Ok((with(Assignment::new(), true)?, Some(header)))
        }
    }
}

fn hypothesis(trial: &Trial, (left, all): (usize, usize), assignments: usize) -> (String, Layer) {
    let scenarios = trial.only.len();
    let text = match trial.rung.as_str() {
        "rung 1" => format!(
            "among {} there is one that is faster than the defaults on one of {scenarios} scenarios",
            counted(assignments.saturating_sub(1), "other assignment")
        ),
        "the grid" => {
            format!("{left} of {all} alternatives are the best somewhere on {scenarios} scenarios")
        }
        "flags" => "one of the allowed flags makes it faster".to_owned(),
        "flags again" => "the flags that looked faster are faster".to_owned(),
        "flags together" => "the flags that are faster are faster together".to_owned(),
        "confirmation" => {
            "what was chosen is faster than before, in a measurement that chose nothing".to_owned()
        }
        _ => format!("the best of {left} alternatives out of {all} stays the best when it is measured again"),
    };
    let layer = if trial.rung.starts_with("flags") { Layer::Instructions } else { Layer::Dispatch };
    (text, layer)
}

fn said(trial: &Trial, measured: &Measured) -> String {
    let result = match &measured.failed {
        Some(why) => format!("fails: {why}"),
        None => {
            let all: Vec<String> = trial
                .only
                .iter()
                .take(6)
                .map(|s| {
                    measured
                        .ratios
                        .get(s)
                        .map_or_else(|| format!("{s} -"), |r| format!("{s} {:.2}×", r.point))
                })
                .collect();
            let more = trial.only.len().saturating_sub(6);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", all.join("  "))
        }
    };
    format!("{}: {}: {result}", trial.rung, trial.name)
}
