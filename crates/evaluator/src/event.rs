//! What the engine says while it works. Every output consumes these; the engine prints nothing.

use kernelseek_core::verdict::ScenarioVerdict;
use serde::{Deserialize, Serialize};

/// Which side of the comparison an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The seed.
    Seed,
    /// The candidate.
    Candidate,
    /// The reference.
    Reference,
}

impl Side {
    /// The side's name as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Candidate => "candidate",
            Self::Reference => "reference",
        }
    }
}

/// One step of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The problem was read.
    Problem {
        /// Its name.
        name: String,
        /// Scenarios that will be evaluated.
        scenarios: usize,
    },
    /// What follows is one more evaluation, made by the engine itself.
    Again {
        /// Why, in words.
        why: String,
    },
    /// A build begins.
    Building {
        /// What is built.
        side: Side,
    },
    /// A build ended.
    Built {
        /// What was built.
        side: Side,
        /// Whether the cache had it.
        cached: bool,
        /// Seconds it took.
        seconds: f64,
    },
    /// The machine's peaks are being measured.
    MeasuringPeaks,
    /// The seed is being compared with itself, because no record of its spread exists for this device.
    Calibrating {
        /// Scenarios to calibrate.
        scenarios: usize,
    },
    /// The reference is computing the fixed contents of a scenario.
    Referencing {
        /// Scenario id.
        scenario: String,
    },
    /// A worker instance begins.
    Instance {
        /// Number of the instance, from 1.
        index: usize,
        /// How many there will be.
        of: usize,
    },
    /// One scenario was measured once more.
    Measured {
        /// Scenario id.
        scenario: String,
        /// Number of the instance, from 1.
        instance: usize,
        /// Ratio so far, seed over candidate.
        ratio: Option<f64>,
    },
    /// Something disturbed a pair and it is measured again.
    Remeasured {
        /// Scenario id.
        scenario: String,
        /// What disturbed it.
        why: String,
    },
    /// A suspicious win is being audited.
    Auditing {
        /// Scenario id.
        scenario: String,
        /// Its ratio.
        ratio: f64,
    },
    /// A sanitizer or profiler begins with a scenario.
    UnderTool {
        /// The tool.
        tool: String,
        /// Scenario id.
        scenario: String,
    },
    /// The held-out scenarios begin.
    HeldOut {
        /// How many were drawn.
        drawn: usize,
    },
    /// A scenario is judged.
    Scenario(Box<ScenarioVerdict>),
}

/// Receives events.
pub trait Sink {
    /// Called for every event, in order.
    fn on(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Sink for F {
    fn on(&mut self, event: &Event) {
        self(event);
    }
}
