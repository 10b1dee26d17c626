//! `campaign.toml`: what a campaign is about, what it must reach, and how it is steered.

mod parse;

pub use parse::parse_campaign;

use crate::diagnostic::Source;
use crate::goal::Goal;
use std::sync::Arc;
use std::time::Duration;

/// The version of the file's format that this code reads.
pub const FORMAT: i64 = 1;
/// The file's name.
pub const FILE: &str = "campaign.toml";

/// A campaign as its file describes it.
#[derive(Debug, Clone)]
pub struct CampaignFile {
    /// The file.
    pub source: Arc<Source>,
    /// Name, shown to people: letters, digits, `-`, `_`.
    pub name: String,
    /// Folder with problem.toml, relative to the file.
    pub problem: String,
    /// The source that is edited, relative to the file.
    pub candidate: String,
    /// Scenario set; the problem's default without one.
    pub set: Option<String>,
    /// The goal.
    pub goal: Goal,
    /// When decision points are reached.
    pub thresholds: Thresholds,
    /// When the campaign ends whatever the goal.
    pub budget: Budget,
    /// How questions are asked.
    pub questions: Questions,
    /// What the ledger keeps.
    pub retention: Retention,
    /// Compiler flags that the candidate may choose from; the problem's `candidate_flags` without it.
    pub candidate_flags: Option<Vec<String>>,
}

/// When decision points are reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Gain of the aggregate over the incumbent, in one step, above which a win is suspicious.
    pub suspicious: f64,
    /// The same for a single scenario.
    pub suspicious_scenario: f64,
    /// Evaluations without a promotion that make a plateau.
    pub plateau_evaluations: u64,
    /// Active time without a promotion that makes a plateau.
    pub plateau_time: Duration,
    /// Gain of the best aggregate over ten evaluations below which the campaign is on a plateau.
    pub plateau_gain: f64,
    /// Hypotheses in a row about one layer that make a plateau.
    pub plateau_layer_run: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            suspicious: 1.5,
            suspicious_scenario: 2.0,
            plateau_evaluations: 8,
            plateau_time: Duration::from_secs(2 * 3600),
            plateau_gain: 0.005,
            plateau_layer_run: 5,
        }
    }
}

/// When the campaign ends whatever the goal. Nothing set is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Finished evaluations.
    pub evaluations: Option<u64>,
    /// `--full` evaluations: each one draws held-out scenarios and tells something about them.
    pub full_evaluations: Option<u64>,
    /// Time from the first seal.
    pub time: Option<Duration>,
}

/// How questions are asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    /// Whether any are.
    pub enabled: bool,
    /// Share of silences where a question would be asked, so that what questions do can be measured. Suspicious wins
    /// and correctness breaks are always asked about.
    pub silence: f64,
    /// Folder with further entries, relative to the file.
    pub bank: Option<String>,
}

impl Default for Questions {
    fn default() -> Self {
        Self { enabled: true, silence: 0.1, bank: None }
    }
}

/// What the ledger keeps. Rows, verdicts and sources stay for ever; only bulk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Evaluations whose raw pairs are kept, besides the promoted ones.
    pub raw: u64,
    /// Evaluations whose built library is kept, besides the promoted ones.
    pub builds: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { raw: 500, builds: 50 }
    }
}
