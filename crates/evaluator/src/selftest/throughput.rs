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
    /// Chores about workers, of which the GPU does nothing, by name, seconds.
    #[serde(default)]
    pub chore_seconds: BTreeMap<String, f64>,
}

impl Walk {
    fn new(problem: String, tier: Tier, scenarios: usize, seconds: f64, spent: Spent) -> Self {
        let seconds_of = |d: Duration| d.as_secs_f64();
        Self {
            problem,
            tier,
            scenarios,
            seconds,
            supervisor_seconds: seconds_of(spent.work),
            request_seconds: seconds_of(spent.requests),
            flush_seconds: seconds_of(spent.flush),
            chore_seconds: Chore::ALL.map(|c| (c.as_str().to_owned(), seconds_of(spent.on(c)))).into(),
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

/// The evaluations that were timed. The figures of the largest default one and of the quick one stand on top.
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
        let default = largest_default(&runs)?;
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
        largest_default(&self.runs)
    }
}

fn of(runs: &[Walk], tier: Tier) -> impl Iterator<Item = &Walk> {
    runs.iter().filter(move |r| r.tier == tier)
}

fn largest_default(runs: &[Walk]) -> Option<&Walk> {
    of(runs, Tier::Default).max_by_key(|r| r.scenarios)
}

/// Times a default evaluation of each of `problems`, and a quick one of the first.
///
/// # Errors
/// When a seed or a reference fails.
pub fn run(
    problems: &[&Path],
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<Option<Throughput>, EvaluateError> {
    let mut runs = Vec::new();
    for problem in problems {
        runs.push(one(problem, Tier::Default, settings, stand, sink)?);
    }
    if let Some(first) = problems.first() {
        runs.push(one(first, Tier::Quick, settings, stand, sink)?);
    }
    Ok(Throughput::of(runs))
}

fn one(
    problem: &Path,
    tier: Tier,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<Walk, EvaluateError> {
    let settings = Settings {
        secret: crate::dice::key(&settings.secret, &format!("throughput/{}", tier.as_str())),
        tier,
        effort: Effort::of(tier),
        only: Vec::new(),
        set: None,
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
    Ok(Walk::new(evaluation.verdict.problem, tier, evaluation.verdict.scenarios.len(), seconds, spent))
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
        Walk::new("p".into(), tier, scenarios, seconds, spent)
    }

    #[test]
    fn shares_come_to_the_whole() {
        let walk = walk(Tier::Default, 1, 8.0);
        assert_eq!((walk.gpu_share(), walk.flush_share(), walk.rest_share()), (0.75, 0.125, 0.125));
    }

    #[test]
    fn the_largest_default_run_counts_and_the_slowest_quick_one() {
        let runs =
            vec![walk(Tier::Default, 20, 9.0), walk(Tier::Default, 26, 12.0), walk(Tier::Quick, 1, 2.0)];
        let sum = Throughput::of(runs.clone()).unwrap();
        assert_eq!((sum.scenarios, sum.default_seconds, sum.quick_seconds), (26, 12.0, 2.0));
        assert_eq!(Throughput::of(runs[..2].to_vec()), None);
        assert_eq!(Throughput::of(Vec::new()), None);
    }
}
