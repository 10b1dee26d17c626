//! Decision points: the five moments at which a campaign is asked a question.

use serde::{Deserialize, Serialize};

/// A decision point, in the order in which several at once are served: what could let a wrong result through comes
/// before what only costs time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionPoint {
    /// A scenario fails and the failure is explained away instead of measured.
    CorrectnessBreak,
    /// A gain that is larger than the campaign's history makes likely.
    SuspiciousWin,
    /// The agent wants to stop, or says that no more can be had, and the goal is unmet.
    ClaimedLimit,
    /// Nothing was promoted for a while, or the search circles.
    Plateau,
    /// Nothing was promoted yet, or the seal is new.
    CampaignStart,
}

impl DecisionPoint {
    /// Every decision point, in order of precedence.
    pub const ALL: [Self; 5] =
        [Self::CorrectnessBreak, Self::SuspiciousWin, Self::ClaimedLimit, Self::Plateau, Self::CampaignStart];

    /// The point as records hold it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CorrectnessBreak => "correctness_break",
            Self::SuspiciousWin => "suspicious_win",
            Self::ClaimedLimit => "claimed_limit",
            Self::Plateau => "plateau",
            Self::CampaignStart => "campaign_start",
        }
    }

    /// The point as a person reads it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::CorrectnessBreak => "correctness break explained away",
            Self::SuspiciousWin => "suspicious win",
            Self::ClaimedLimit => "claimed limit or completion",
            Self::Plateau => "plateau",
            Self::CampaignStart => "campaign start",
        }
    }

    /// Whether a question is asked every time, whatever the share of silences: a wrong result must not pass for the
    /// sake of a statistic.
    #[must_use]
    pub const fn always_asks(self) -> bool {
        matches!(self, Self::CorrectnessBreak | Self::SuspiciousWin)
    }
}

impl std::fmt::Display for DecisionPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.words())
    }
}

/// Layer of the system that a hypothesis or a question is about, outermost first. They are the groups of the question
/// bank, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Which scenarios and which clock the work is about (G1).
    Goal,
    /// Whether the measurement measures that (G2).
    Measurement,
    /// The host path and the call boundary (G3).
    Host,
    /// Which code runs for which scenario (G4).
    Dispatch,
    /// How much work there is at all (G5).
    Formulation,
    /// How the work is spread over processors (G6).
    Schedule,
    /// Memory beyond the chip, caches, pages (G7).
    Memory,
    /// Movement and waiting on the chip (G8).
    OnChip,
    /// Instructions, registers, what the compiler made (G9).
    Instructions,
    /// Correctness, numerics, claims, and the search itself (G10).
    Conduct,
}

impl Layer {
    /// Every layer, outermost first.
    pub const ALL: [Self; 10] = [
        Self::Goal,
        Self::Measurement,
        Self::Host,
        Self::Dispatch,
        Self::Formulation,
        Self::Schedule,
        Self::Memory,
        Self::OnChip,
        Self::Instructions,
        Self::Conduct,
    ];

    /// The layer as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Goal => "goal",
            Self::Measurement => "measurement",
            Self::Host => "host",
            Self::Dispatch => "dispatch",
            Self::Formulation => "formulation",
            Self::Schedule => "schedule",
            Self::Memory => "memory",
            Self::OnChip => "on_chip",
            Self::Instructions => "instructions",
            Self::Conduct => "conduct",
        }
    }

    /// The layer of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == name)
    }
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_records_hold() {
        for point in DecisionPoint::ALL {
            assert_eq!(serde_json::to_value(point).unwrap(), point.as_str());
        }
        for layer in Layer::ALL {
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.as_str());
            assert_eq!(Layer::of(layer.as_str()), Some(layer));
        }
        assert_eq!(Layer::of("kernel"), None);
        let mut sorted = DecisionPoint::ALL;
        sorted.sort_unstable();
        assert_eq!(sorted, DecisionPoint::ALL, "precedence is the order of the variants");
    }
}
