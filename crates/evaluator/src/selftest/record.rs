//! The record of a self-test.

use super::agreement::{self, TimerAgreement};
use super::raw::Raw;
use super::throughput::Throughput;
use crate::gpu_hold::GpuHold;
use crate::session::Session;
use kernelseek_core::verdict::Ratio;
use kernelseek_device::cuda::GpuIdentity;
use kernelseek_device::topology::CpuIdentity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One run of the seed against itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AaRun {
    /// Problem, where it is not the record's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Geometric mean over the scenarios.
    pub geomean: f64,
    /// Scenario verdicts in this run.
    pub verdicts: usize,
    /// Of these, how many said "faster".
    pub false_faster: usize,
    /// Of these, how many said "at least 1 % faster": the whole interval lies above 1.01.
    #[serde(default)]
    pub false_one_percent: usize,
    /// Interval of each scenario.
    pub ratios: BTreeMap<String, Ratio>,
    /// Raw pairs of each scenario.
    pub raw: BTreeMap<String, Raw>,
    /// Spread used for each scenario's interval.
    pub aa_spread: BTreeMap<String, f64>,
    /// What one call of the seed takes in each scenario, nanoseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seed_ns: BTreeMap<String, f64>,
    /// How long the supervisor's own kernel took right after the requests of either side, median nanoseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub canaries: BTreeMap<String, [f64; 2]>,
    /// Scenarios on which the seed did not pass as its own candidate, with the word and the first defence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_passed: BTreeMap<String, String>,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl AaRun {
    /// Scenarios whose whole interval lies above 1.01.
    #[must_use]
    pub fn one_percent(ratios: &BTreeMap<String, Ratio>) -> usize {
        ratios.values().filter(|r| r.lo > 1.01).count()
    }
}

/// A planted slowdown, or on a GPU a planted gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowdownTrial {
    /// Scenario.
    pub scenario: String,
    /// Slowdown that instruction counts show (instructions of the slowed copy over the seed's, minus 1); `None` without
    /// valgrind.
    pub instructions: Option<f64>,
    /// Measured ratio, seed over slowed copy.
    pub ratio: Ratio,
    /// Whether the interval lies wholly below 1; for a gain, above.
    pub found: bool,
    /// The gain, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
    /// Raw pairs.
    pub raw: Raw,
    /// Spread used for the interval.
    pub aa_spread: f64,
}

/// A gain that was compiled into a copy of the seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Thousandths that the copy waits less.
    pub permille: u32,
    /// Tag of the scenarios that it is looked for in.
    pub class: String,
    /// Word of the scenario's verdict: a gain is found only if it passes.
    pub word: String,
    /// Cycles of the copy over those of the seed by the GPU's clock counter, where they were counted.
    pub cycles: Option<f64>,
}

/// What `problems/tools/cycles.cu` printed about one gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleCount {
    /// Thousandths that the copy waits less.
    pub permille: u32,
    /// Whether every ratio was the intended one.
    pub holds: bool,
    /// What it printed, line by line.
    pub printed: Vec<String>,
}

/// One hostile or faulty candidate in one round.
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
    /// How the record was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Commit, if the caller knows it.
    pub commit: Option<String>,
    /// Problem that stood for all.
    pub problem: String,
    /// Its hash.
    pub problem_hash: String,
    /// Device.
    pub device: CpuIdentity,
    /// The GPU that the calls ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuIdentity>,
    /// Driver, clocks, power and heat at the beginning of each call of the command that added to this record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<serde_json::Value>,
    /// Compiler.
    pub compiler: String,
    /// The seed against itself.
    pub aa_runs: Vec<AaRun>,
    /// Scenario verdicts over all runs.
    pub verdicts: usize,
    /// Of these, how many said "faster".
    pub false_faster: usize,
    /// Of these, how many said "at least 1 % faster".
    #[serde(default)]
    pub false_one_percent: usize,
    /// Slowdowns planted.
    pub slowdown_tried: usize,
    /// Slowdowns found.
    pub slowdown_found: usize,
    /// Each of them.
    pub slowdown: Vec<SlowdownTrial>,
    /// What the clock counter says of the planted gains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<CycleCount>,
    /// Two clocks on every scenario that the seed ran against itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timer_agreement: Vec<TimerAgreement>,
    /// How long evaluations take, and where the time goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Candidates that fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<HostileTrial>,
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
            command: None,
            commit,
            problem: session.files.problem.name.clone(),
            problem_hash: session.files.hash.clone(),
            device: CpuIdentity::read(),
            gpu: session.gpu_identity(),
            moments: session.gpu_hold().and_then(GpuHold::facts).into_iter().collect(),
            compiler: session.compiler(),
            aa_runs: Vec::new(),
            verdicts: 0,
            false_faster: 0,
            false_one_percent: 0,
            slowdown_tried: 0,
            slowdown_found: 0,
            slowdown: Vec::new(),
            cycles: Vec::new(),
            timer_agreement: Vec::new(),
            throughput: None,
            faults: Vec::new(),
            hostile: Vec::new(),
            seconds: BTreeMap::new(),
        }
    }

    /// Recomputes the sums from the parts.
    pub fn total(&mut self) {
        self.false_one_percent = self.aa_runs.iter().map(|r| r.false_one_percent).sum();
        self.timer_agreement = agreement::of(&self.problem, &self.aa_runs);
        self.verdicts = self.aa_runs.iter().map(|r| r.verdicts).sum();
        self.false_faster = self.aa_runs.iter().map(|r| r.false_faster).sum();
        self.slowdown_tried = self.slowdown.len();
        self.slowdown_found = self.slowdown.iter().filter(|t| t.found).count();
    }

    /// Whether what is in this record may stand beside what `other`'s machine adds: the same problem on the same machine, or
    /// on another of the same model where a GPU does the work.
    #[must_use]
    pub fn goes_on_as(&self, other: &Self) -> bool {
        let same = match (&self.gpu, &other.gpu) {
            (Some(a), Some(b)) => a.name == b.name && a.capability == b.capability,
            (None, None) => self.device == other.device,
            _ => false,
        };
        same && self.problem_hash == other.problem_hash
    }

    /// Whether all of the work was done on a GPU.
    #[must_use]
    pub const fn on_gpu(&self) -> bool {
        self.gpu.is_some()
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
