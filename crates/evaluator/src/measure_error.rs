//! Why there can be no verdict: what failed was not the candidate.

use crate::scenario_state::ScenarioState;
use kernelseek_device::client::DeviceError;
use kernelseek_device::protocol::Status;
use kernelseek_numerics::content;

/// An error of the harness itself, not of the candidate.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The seed's worker failed: no verdict can stand on it.
    #[error("the seed failed on scenario `{scenario}` {doing}")]
    Seed {
        /// Scenario id.
        scenario: String,
        /// What was asked of it.
        doing: &'static str,
        /// Why.
        #[source]
        source: DeviceError,
    },
    /// The seed declined or reported an error.
    #[error("the seed answered {status:?} on scenario `{scenario}`")]
    SeedStatus {
        /// Scenario id.
        scenario: String,
        /// What it answered.
        status: Status,
    },
    /// The seed does not pass the checks that candidates must pass.
    #[error("the seed fails as its own candidate on scenario `{scenario}`: {message}")]
    SeedFails {
        /// Scenario id.
        scenario: String,
        /// The first failure.
        message: String,
    },
    /// The reference failed.
    #[error(transparent)]
    Oracle(#[from] crate::oracle::OracleError),
    /// The supervisor's own work on the GPU failed.
    #[error("the GPU failed under the supervisor on scenario `{scenario}`")]
    Gpu {
        /// Scenario id.
        scenario: String,
        /// Why.
        #[source]
        source: Box<DeviceError>,
    },
    /// A content could not be generated.
    #[error("scenario `{scenario}`: the content cannot be generated")]
    Content {
        /// Scenario id.
        scenario: String,
        /// Why.
        #[source]
        source: content::ContentError,
    },
}

impl MeasureError {
    /// The supervisor's GPU work failed on this scenario.
    pub(crate) fn gpu(state: &ScenarioState, source: DeviceError) -> Self {
        Self::Gpu { scenario: state.case.id.clone(), source: Box::new(source) }
    }

    /// What to do when the seed cannot be compared with itself for this reason.
    pub(crate) const fn next_in_calibration(&self) -> Option<&'static str> {
        match self {
            Self::SeedFails { .. } => Some(
                "seed and reference disagree: one of them is wrong, or the inputs (`stress`, `extreme`) go where neither is defined",
            ),
            Self::Gpu { .. } | Self::Oracle(_) | Self::Content { .. } => None,
            Self::Seed { .. } | Self::SeedStatus { .. } => {
                Some("run the seed on this scenario alone: it is what every candidate is compared with")
            }
        }
    }
}

pub(crate) fn seed_error(state: &ScenarioState, doing: &'static str, source: DeviceError) -> MeasureError {
    MeasureError::Seed { scenario: state.case.id.clone(), doing, source }
}
