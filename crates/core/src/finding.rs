//! Findings: what a stage saw that matters for the verdict, with a stable defence id.

use serde::{Deserialize, Serialize};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; changes nothing.
    Note,
    /// A denied attempt or an oddity that the report shows beside a PASS.
    Warning,
    /// An anomaly that is not cleared: the verdict can be no better than UNPROVEN.
    Unproven,
    /// The verdict is FAIL.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable id of the defence that made it, `stage.rule` (`allowed.import`, `correct.redzone`, …).
    pub defence: String,
    /// Weight.
    pub severity: Severity,
    /// What happened, one sentence without a full stop.
    pub message: String,
    /// Evidence: symbol, file, address, numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The one next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Finding {
    /// A finding without evidence.
    #[must_use]
    pub fn new(defence: &str, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            defence: defence.to_owned(),
            severity,
            message: message.into(),
            evidence: Vec::new(),
            next: None,
        }
    }
    /// Adds one piece of evidence.
    #[must_use]
    pub fn with_evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }
    /// Sets the next step.
    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}
