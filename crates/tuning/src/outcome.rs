//! What came of tuning.

use crate::estimate::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known about one alternative.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    /// Its values or flags in words.
    pub name: String,
    /// Ratio to the seed by scenario, everything measured of it together.
    pub ratios: BTreeMap<String, Estimate>,
    /// In which rung it was dropped; `None` if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<String>,
    /// Why it was dropped, or what it was chosen for.
    pub why: String,
}

/// A confirmed gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Time before over time now, geometric mean over the scenarios, of measurements that chose nothing.
    pub ratio: Estimate,
    /// The same by scenario.
    pub scenarios: BTreeMap<String, Estimate>,
    /// What was chosen, in words.
    pub what: String,
}

/// What came of tuning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The gain; `None`: the kernel is as it was.
    pub gain: Option<Gain>,
    /// One sentence.
    pub words: String,
    /// The alternatives, the defaults first.
    pub arms: Vec<ArmReport>,
    /// Flags that were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<ArmReport>,
    /// Evaluations made.
    pub evaluations: usize,
    /// Seconds they took.
    pub seconds: f64,
    /// What the reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
