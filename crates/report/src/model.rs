//! The report as data. Everything that a view shows is in here, whole; views shorten.

use crate::limits::Limit;
use crate::story::Line;
use kernelseek_core::finding::Finding;
use kernelseek_core::goal::Judgement;
use kernelseek_core::verdict::{HeldOut, Ratio, ScenarioVerdict, Stage, Trust, Word};
use kernelseek_ledger::entry::{Counts, KeptFile, Purpose};
use serde::{Deserialize, Serialize};

/// Version of the report's form. Fields are only ever added; readers refuse a larger one.
pub const FORMAT: u32 = 1;

/// A campaign's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// Version of the tool that made it.
    pub tool: String,
    /// When it was made, milliseconds since 1970.
    pub made_ms: i64,
    /// Which campaign, up to which row.
    pub identity: Identity,
    /// Whether the goal is met, as `kernelseek goal` says it.
    pub state: State,
    /// The evaluation that the report's numbers are from; none before the first.
    pub subject: Option<Subject>,
    /// The goal, clause by clause.
    pub goal: Goal,
    /// Aggregates of the whole-grid attempts under the seal in order, and the incumbent's after each.
    pub course: Vec<Point>,
    /// What happened, in order.
    pub story: Vec<Line>,
    /// Evaluations, counted.
    pub tally: Tally,
    /// Questions, counted.
    pub questions: Questions,
    /// What this report does not show, and what its numbers rest on.
    pub limits: Vec<Limit>,
}

/// Which campaign, up to which row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Campaign id.
    pub campaign: String,
    /// Its name.
    pub name: String,
    /// Version of the tool that began it.
    pub tool: String,
    /// The file that is edited.
    pub candidate: String,
    /// Hash of the seal in force.
    pub seal: String,
    /// Its row.
    pub seal_row: u64,
    /// Parts of the seal that name the machine: its device and its compilers.
    pub sealed_for: Vec<String>,
    /// Scenarios of the sealed grid.
    pub scenarios: usize,
    /// Rows.
    pub rows: u64,
    /// Hash of the last row: whoever keeps it can tell whether the ledger was rewritten.
    pub head: String,
    /// When the campaign began, milliseconds since 1970.
    pub began_ms: i64,
    /// When its last row was written.
    pub last_ms: i64,
}

/// Whether the goal is met, as `kernelseek goal` says it at the moment of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// `MET`, `UNMET`, `OPEN` or `OVER`.
    pub word: String,
    /// Whether it is met.
    pub met: bool,
    /// Rule of the stop decision.
    pub rule: String,
    /// Why.
    pub reason: String,
    /// Why the campaign ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Why this evaluation is the one that the report shows. The first that there is, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chosen {
    /// The campaign ended with it.
    Ended,
    /// It is of the sources as they are, and meets the goal.
    Current,
    /// It met the goal; the sources have changed since.
    Earlier,
    /// It is the incumbent's last full evaluation.
    Incumbent,
    /// It is the second measurement that made the incumbent.
    Confirmation,
    /// It is the last one of the whole grid.
    WholeGrid,
    /// It is the last one.
    Last,
}

/// The evaluation that the report's numbers are from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Its row.
    pub row: u64,
    /// When it ended, milliseconds since 1970.
    pub at_ms: i64,
    /// Why this one.
    pub chosen: Chosen,
    /// Whether it alone shows that the goal is met.
    pub meets: bool,
    /// Who asked for it.
    pub purpose: Purpose,
    /// Tier.
    pub tier: String,
    /// Mode.
    pub mode: String,
    /// Word.
    pub word: Word,
    /// Last stage that every scenario passed.
    pub passed: Stage,
    /// Trust.
    pub trust: Trust,
    /// Whether a supervisor led the agent.
    pub led: bool,
    /// Candidate hash.
    pub candidate_hash: String,
    /// The workspace's files that the build read.
    pub sources: Vec<KeptFile>,
    /// Counts.
    pub counts: Counts,
    /// Geometric mean.
    pub geomean: Option<Ratio>,
    /// Scenarios that the mean is over.
    pub with_ratio: usize,
    /// Why the verdict cannot be read, if it cannot: then there are no scenarios here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Hash of the seed.
    pub seed_hash: String,
    /// Hash of the problem.
    pub problem_hash: String,
    /// Scenarios, worst first.
    pub scenarios: Vec<ScenarioVerdict>,
    /// Findings about the candidate as a whole.
    pub findings: Vec<Finding>,
    /// Held-out scenarios: class and counts, never the cases.
    pub held_out: Option<HeldOut>,
    /// Standard deviation of the seed against itself between instances; none where it was not measured.
    pub aa_spread: Option<f64>,
    /// What it was measured on and with.
    pub setting: Setting,
}

/// What an evaluation was made on and with. Read from the verdict's own JSON, whatever target made it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// Problem name.
    pub problem: String,
    /// Scenario set.
    pub set: String,
    /// Timed column.
    pub column: String,
    /// The device.
    pub device: Machine,
    /// Compiler.
    pub compiler: String,
    /// Sandbox layers of the candidate's worker, in words.
    pub layers: Vec<String>,
    /// What the reader should know that is no finding.
    pub notes: Vec<String>,
}

/// The device that times are from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Model.
    pub model: String,
    /// Cores that the tool may use.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
}

/// The goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Its clauses as they are written.
    pub clauses: Vec<String>,
    /// Row of the evaluation that it was judged on: the subject's.
    pub row: Option<u64>,
    /// The judgement; none where there is no verdict to judge.
    pub judgement: Option<Judgement>,
    /// What a person should know before relying on the goal.
    pub warnings: Vec<String>,
}

/// One step of the course: a whole-grid attempt under the seal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its row.
    pub row: u64,
    /// Its aggregate, where its verdict lets it count.
    pub attempt: Option<f64>,
    /// Whether it was promoted.
    pub promoted: bool,
    /// The incumbent's aggregate after it; 1 for the seed.
    pub incumbent: f64,
}

/// Evaluations, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Attempts under the seal in force.
    pub attempts: u64,
    /// Promotions under it.
    pub promotions: u64,
    /// `--full` evaluations under it, whoever asked for them: each tells something about held-out scenarios.
    pub full: u64,
    /// Evaluations under it.
    pub evaluations: u64,
    /// Of these, made while an agent was led.
    pub led: u64,
    /// Evaluations under other seals: STALE.
    pub stale: u64,
    /// Evaluations that ended without a verdict.
    pub abandoned: u64,
    /// Stops that were refused.
    pub refused_stops: u64,
    /// Hypotheses.
    pub hypotheses: u64,
    /// Of these, with an expected ratio and an attempt of the whole grid that measured it.
    pub measured: u64,
    /// Of these, what was measured reached what was expected.
    pub reached: u64,
}

/// Questions, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Questions {
    /// Asked.
    pub asked: u64,
    /// Of these, a person's.
    pub person: u64,
    /// Answered.
    pub answered: u64,
    /// Answered with evidence that holds.
    pub accepted: u64,
    /// Held back on purpose.
    pub silences: u64,
}

impl Report {
    /// Whether an agent was led when the subject was measured.
    #[must_use]
    pub fn led(&self) -> bool {
        self.subject.as_ref().is_some_and(|s| s.led)
    }

    /// The incumbent's aggregate as the course ends with it; 1 for the seed.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.course.last().map_or(1.0, |p| p.incumbent)
    }
}
