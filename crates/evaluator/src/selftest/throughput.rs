//! How long evaluations take once everything is built and calibrated, and where the time goes: the seed as its own candidate.

use crate::evaluate::{self, EvaluateError};
use crate::event::Sink;
use crate::session::Session;
use crate::settings::{Effort, Settings, Tier};
use crate::stand::Stand;
use kernelseek_device::cuda::spent::{Chore, Spent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// One timed evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Walk {
    /// Problem.
    pub problem: String,
    /// Its scenario set, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Tier.
    pub tier: Tier,
    /// Scenarios.
    pub scenarios: usize,
    /// From opening the session, with the GPU not yet open, to the verdict, seconds.
    pub seconds: f64,
    /// Waiting for the supervisor's own kernels and copies, seconds.
    pub supervisor_seconds: f64,
    /// Requests, each from the opening of its gate until the device was idle, seconds.
    pub request_seconds: f64,
    /// Flushes of the cache, seconds.
    pub flush_seconds: f64,
    /// Chores during which the GPU does nothing, by name, seconds.
    #[serde(default)]
    pub chore_seconds: BTreeMap<String, f64>,
}

impl Walk {
    fn new(of: Whole<'_>, tier: Tier, scenarios: usize, seconds: f64, spent: Spent) -> Self {
        let seconds_of = |d: Duration| d.as_secs_f64();
        Self {
            problem: of.problem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            set: of.set.map(str::to_owned),
            tier,
            scenarios,
            seconds,
            supervisor_seconds: seconds_of(spent.work),
            request_seconds: seconds_of(spent.requests),
            flush_seconds: seconds_of(spent.flush),
            chore_seconds: Chore::ALL.map(|c| (c.as_str().to_owned(), seconds_of(spent.on(c)))).into(),
        }
    }

    /// Problem and set in a few words.
    #[must_use]
    pub fn of_what(&self) -> String {
        match &self.set {
            Some(set) => format!("{} ({set})", self.problem),
            None => self.problem.clone(),
        }
    }

    /// Share of the time that is work of the GPU: the supervisor's and the workers'.
    #[must_use]
    pub fn gpu_share(&self) -> f64 {
        (self.supervisor_seconds + self.request_seconds) / self.seconds
    }
    /// Share of the time that flushes take.
    #[must_use]
    pub fn flush_share(&self) -> f64 {
        self.flush_seconds / self.seconds
    }
    /// Share of the time that is neither.
    #[must_use]
    pub fn rest_share(&self) -> f64 {
        1.0 - self.gpu_share() - self.flush_share()
    }
}

/// What is evaluated as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// Folder of the problem.
    pub problem: &'a Path,
    /// Scenario set; the problem's usual one when `None`.
    pub set: Option<&'a str>,
}

/// The evaluations that were timed. The figures of the first default one and of the quick one stand on top.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Scenarios of the default verdict.
    pub scenarios: usize,
    /// Seconds of a default verdict, everything built and calibrated.
    pub default_seconds: f64,
    /// Seconds of a quick verdict.
    pub quick_seconds: f64,
    /// Share of the default verdict that is work of the GPU.
    pub gpu_share: f64,
    /// Share of the default verdict that flushes take.
    pub flush_share: f64,
    /// Share of the default verdict that is neither.
    pub rest_share: f64,
    /// The evaluations.
    pub runs: Vec<Walk>,
}

impl Throughput {
    /// Sums up; `None` without a default and a quick evaluation.
    #[must_use]
    pub fn of(runs: Vec<Walk>) -> Option<Self> {
        let default = first_default(&runs)?;
        let quick = of(&runs, Tier::Quick).map(|r| r.seconds).max_by(f64::total_cmp)?;
        Some(Self {
            scenarios: default.scenarios,
            default_seconds: default.seconds,
            quick_seconds: quick,
            gpu_share: default.gpu_share(),
            flush_share: default.flush_share(),
            rest_share: default.rest_share(),
            runs,
        })
    }

    /// The run whose figures stand on top.
    #[must_use]
    pub fn default_run(&self) -> Option<&Walk> {
        first_default(&self.runs)
    }
}

fn of(runs: &[Walk], tier: Tier) -> impl Iterator<Item = &Walk> {
    runs.iter().filter(move |r| r.tier == tier)
}

fn first_default(runs: &[Walk]) -> Option<&Walk> {
    of(runs, Tier::Default).next()
}

/// Times a default evaluation of each of `all`, and a quick one of `quick`.
///
/// # Errors
/// When a seed or a reference fails.
pub fn run(
    all: &[Whole<'_>],
    quick: Whole<'_>,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<Option<Throughput>, EvaluateError> {
    let mut runs = Vec::new();
    for whole in all {
        runs.push(one(*whole, Tier::Default, settings, stand, sink)?);
    }
    runs.push(one(quick, Tier::Quick, settings, stand, sink)?);
    Ok(Throughput::of(runs))
}

fn one(
    of: Whole<'_>,
    tier: Tier,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<Walk, EvaluateError> {
    let Whole { problem, set } = of;
    let label = format!("throughput/{}/{}", tier.as_str(), set.unwrap_or_default());
    let settings = Settings {
        secret: crate::dice::key(&settings.secret, &label),
        tier,
        effort: Effort::of(tier),
        only: Vec::new(),
        set: set.map(str::to_owned),
        calibrate: tier != Tier::Quick,
        ..settings.clone()
    };
    // What is done once for a problem and a device is done first.
    let mut session = stand.open(problem, None, &settings)?;
    let _ = session.candidate(sink)?;
    let cases = session.cases()?;
    let bench = session.bench(&cases, sink)?;
    let _ = session.peaks(sink);
    session.calibration(&bench, &cases, sink)?;
    let seed =
        session.files.path(&session.files.problem.seed.path).map_err(crate::session::SessionError::from)?;
    stand.keep(&session);
    drop((bench, session));
    // A user's evaluation opens the GPU: so does this one.
    stand.release();
    let start = Instant::now();
    let mut session = Session::open(problem, Some(&seed), &settings)?;
    let evaluation = evaluate::evaluate(&mut session, &settings, sink)?;
    let seconds = start.elapsed().as_secs_f64();
    let spent = session.gpu_hold().map_or_else(Spent::default, |hold| hold.gpu().spent());
    stand.keep(&session);
    Ok(Walk::new(of, tier, evaluation.verdict.scenarios.len(), seconds, spent))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn walk(tier: Tier, scenarios: usize, seconds: f64) -> Walk {
        let s = Duration::from_secs_f64;
        let spent = Spent {
            work: s(seconds * 0.5),
            requests: s(seconds * 0.25),
            flush: s(seconds * 0.125),
            ..Spent::default()
        };
        Walk::new(Whole { problem: Path::new("at/p"), set: None }, tier, scenarios, seconds, spent)
    }

    #[test]
    fn shares_come_to_the_whole() {
        let walk = walk(Tier::Default, 1, 8.0);
        assert_eq!((walk.gpu_share(), walk.flush_share(), walk.rest_share()), (0.75, 0.125, 0.125));
    }

    #[test]
    fn the_first_default_run_counts_and_the_slowest_quick_one() {
        let runs =
            vec![walk(Tier::Default, 26, 12.0), walk(Tier::Default, 26, 9.0), walk(Tier::Quick, 1, 2.0)];
        let sum = Throughput::of(runs.clone()).unwrap();
        assert_eq!((sum.scenarios, sum.default_seconds, sum.quick_seconds), (26, 12.0, 2.0));
        assert_eq!((runs[0].of_what(), sum.default_run()), ("p".to_owned(), Some(&runs[0])));
        assert_eq!(Throughput::of(runs[..2].to_vec()), None);
        assert_eq!(Throughput::of(Vec::new()), None);
    }
}
