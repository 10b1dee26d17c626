//! The self-test: measures the measurement. Everything goes through the same evaluation that users run.
//!
//! Sections: `aa` (the seed as a candidate: no verdict may be "faster"), `slowdown` (copies of the seed that execute
//! 5 % more instructions: every one must be found), `hostile` (candidates that misbehave: each ends as its catalogue
//! line says, in time, and the next evaluation is right). Raw pairs are kept, and every figure can be recomputed.

pub mod catalogue;
mod hostile;
mod recompute;
mod slowdown;

pub use hostile::run as run_hostile;
pub use recompute::recompute;
pub use slowdown::run as run_slowdown;

use crate::evaluate::{self, EvaluateError};
use crate::event::Sink;
use crate::scenario_state::Instance;
use crate::session::{Session, SessionError};
use crate::settings::Settings;
use kernelseek_core::verdict::{Ratio, Standing, geomean};
use kernelseek_device::topology::CpuIdentity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs of the seed against itself.
pub const AA_RUNS: usize = 20;
/// Slowdowns that are planted.
pub const SLOWDOWNS: usize = 100;

/// One run of the seed against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AaRun {
    /// Geometric mean over the scenarios.
    pub geomean: f64,
    /// Scenario verdicts in this run.
    pub verdicts: usize,
    /// Of these, how many said "faster".
    pub false_faster: usize,
    /// Interval of each scenario.
    pub ratios: BTreeMap<String, Ratio>,
    /// Raw pairs of each scenario.
    pub raw: BTreeMap<String, Vec<Instance>>,
    /// Spread used for each scenario's interval.
    pub aa_spread: BTreeMap<String, f64>,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// One planted slowdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowdownTrial {
    /// Scenario.
    pub scenario: String,
    /// Slowdown that instruction counts show (instructions of the slowed copy over the seed's, minus 1); `None` without
    /// valgrind.
    pub instructions: Option<f64>,
    /// Measured ratio, seed over slowed copy.
    pub ratio: Ratio,
    /// Whether the interval lies wholly below 1.
    pub found: bool,
    /// Raw pairs.
    pub raw: Vec<Instance>,
    /// Spread used for the interval.
    pub aa_spread: f64,
}

/// One hostile candidate in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostileTrial {
    /// Candidate's file.
    pub candidate: String,
    /// Round.
    pub round: usize,
    /// Word that came out.
    pub word: String,
    /// Defence ids of the findings.
    pub defences: Vec<String>,
    /// Whether that is what the catalogue expects.
    pub as_expected: bool,
    /// Whether the evaluation of an honest candidate right after it passed.
    pub next_right: bool,
    /// What it said if it did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next: String,
    /// Wall time of the hostile evaluation in seconds.
    pub seconds: f64,
    /// Whether it ended within its deadline.
    pub in_time: bool,
}

/// The record of a self-test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelftestRecord {
    /// Version of this form.
    pub format: u32,
    /// Version of the tool.
    pub version: String,
    /// Commit, if the caller knows it.
    pub commit: Option<String>,
    /// Problem that stood for all.
    pub problem: String,
    /// Its hash.
    pub problem_hash: String,
    /// Device.
    pub device: CpuIdentity,
    /// Compiler.
    pub compiler: String,
    /// The seed against itself.
    pub aa_runs: Vec<AaRun>,
    /// Scenario verdicts over all runs.
    pub verdicts: usize,
    /// Of these, how many said "faster".
    pub false_faster: usize,
    /// Slowdowns planted.
    pub slowdown_tried: usize,
    /// Slowdowns found.
    pub slowdown_found: usize,
    /// Each of them.
    pub slowdown: Vec<SlowdownTrial>,
    /// Hostile candidates.
    pub hostile: Vec<HostileTrial>,
    /// Seconds spent in each section.
    pub seconds: BTreeMap<String, f64>,
}

impl SelftestRecord {
    /// An empty record for a session.
    #[must_use]
    pub fn new(session: &Session, version: &str, commit: Option<String>) -> Self {
        Self {
            format: 1,
            version: version.to_owned(),
            commit,
            problem: session.files.problem.name.clone(),
            problem_hash: session.files.hash.clone(),
            device: CpuIdentity::read(),
            compiler: session.compiler(),
            aa_runs: Vec::new(),
            verdicts: 0,
            false_faster: 0,
            slowdown_tried: 0,
            slowdown_found: 0,
            slowdown: Vec::new(),
            hostile: Vec::new(),
            seconds: BTreeMap::new(),
        }
    }

    /// Recomputes the sums from the parts.
    pub fn total(&mut self) {
        self.verdicts = self.aa_runs.iter().map(|r| r.verdicts).sum();
        self.false_faster = self.aa_runs.iter().map(|r| r.false_faster).sum();
        self.slowdown_tried = self.slowdown.len();
        self.slowdown_found = self.slowdown.iter().filter(|t| t.found).count();
    }

    /// What misses a bar, in words; empty when every bar is met by what was run.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        for (index, run) in self.aa_runs.iter().enumerate() {
            if (run.geomean - 1.0).abs() > 0.01 {
                misses.push(format!("aa run {}: geomean {:.4}, outside 1 %", index + 1, run.geomean));
            }
        }
        if self.false_faster * 100 > self.verdicts {
            misses.push(format!(
                "{} of {} verdicts say faster where nothing is",
                self.false_faster, self.verdicts
            ));
        }
        if self.slowdown_found * 100 < self.slowdown_tried * 95 {
            misses
                .push(format!("{} of {} planted slowdowns found", self.slowdown_found, self.slowdown_tried));
        }
        for trial in self.hostile.iter().filter(|t| !(t.as_expected && t.next_right && t.in_time)) {
            misses.push(format!(
                "{} round {}: {} {}{}{}{}",
                trial.candidate,
                trial.round,
                trial.word,
                trial.defences.join(" "),
                if trial.as_expected { "" } else { ", which is not expected" },
                if trial.in_time { "" } else { ", late" },
                if trial.next_right {
                    String::new()
                } else {
                    format!(", and the next evaluation was wrong: {}", trial.next)
                }
            ));
        }
        misses
    }

    /// Reads a record; `None` if there is none or it is another version's.
    #[must_use]
    pub fn load(file: &Path) -> Option<Self> {
        let record: Self = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        (record.format == 1).then_some(record)
    }

    /// Writes the record, atomically.
    ///
    /// # Errors
    /// When the file cannot be written; the path comes along.
    pub fn save(&self, file: &Path) -> Result<(), (PathBuf, std::io::Error)> {
        let fail = |e| (file.to_owned(), e);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(fail)?;
        }
        let text = serde_json::to_vec(self).map_err(|e| fail(e.into()))?;
        let temporary = file.with_extension("tmp");
        std::fs::write(&temporary, text).map_err(fail)?;
        std::fs::rename(&temporary, file).map_err(fail)
    }
}

/// Runs the seed against itself once, as a candidate like any other.
///
/// # Errors
/// When the seed or the reference fails.
pub fn run_aa(folder: &Path, settings: &Settings, sink: &mut dyn Sink) -> Result<AaRun, EvaluateError> {
    let mut session = Session::open(folder, None, settings)?;
    let seed = session.files.path(&session.files.problem.seed.path).map_err(SessionError::from)?;
    session = Session::open(folder, Some(&seed), settings)?;
    let evaluation = evaluate::evaluate(&mut session, settings, sink)?;
    let spreads = spreads(&session, settings, sink)?;
    let ratios: BTreeMap<String, Ratio> =
        evaluation.verdict.scenarios.iter().filter_map(|s| Some((s.id.clone(), s.ratio?))).collect();
    let all: Vec<Ratio> = ratios.values().copied().collect();
    Ok(AaRun {
        geomean: geomean(&all).map_or(f64::NAN, |r| r.point),
        verdicts: evaluation.verdict.scenarios.len(),
        false_faster: evaluation
            .verdict
            .scenarios
            .iter()
            .filter(|s| s.standing == Some(Standing::Faster))
            .count(),
        ratios,
        raw: evaluation.raw,
        aa_spread: spreads,
        seconds: evaluation.verdict.seconds,
    })
}

/// Spread that intervals of this session's scenarios were widened by.
fn spreads(
    session: &Session,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<BTreeMap<String, f64>, EvaluateError> {
    let mut session = Session::open(&session.files.folder, session.candidate_path(), settings)?;
    let cases = session.cases()?;
    let bench = session.bench(&cases, sink)?;
    let calibration = session.calibration(&bench, &cases, sink)?;
    Ok(cases.iter().map(|c| (c.id.clone(), calibration.spread(&c.id))).collect())
}
