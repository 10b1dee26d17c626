//! The interval of a run's mean over scenarios, from what the record holds. Pure.

use super::recompute::state_of;
use super::{AaRun, SelftestRecord};
use crate::alike;
use crate::settings::{Effort, Tier};
use kernelseek_core::verdict::{Ratio, geomean};
use kernelseek_numerics::stats;

impl AaRun {
    /// How alike the run's scenarios deviate, from its raw pairs.
    #[must_use]
    pub fn correlation(&self) -> f64 {
        let measured =
            self.ratios.iter().filter_map(|(id, ratio)| Some((state_of(&self.raw.get(id)?.0), *ratio)));
        let measured: Vec<_> = measured.collect();
        alike::correlation(measured.iter().map(|(s, r)| (s, *r)), Effort::of(Tier::Default).confidence)
    }

    /// Geometric mean over the run's scenarios with its interval; records from before scenarios were related are no exception.
    #[must_use]
    pub fn mean(&self) -> Option<Ratio> {
        let correlation = Some(self.correlation());
        let ratios: Vec<Ratio> = self.ratios.values().map(|r| Ratio { correlation, ..*r }).collect();
        geomean(&ratios)
    }
}

/// Intervals of the mean over all runs of the seed against itself, where 1 is the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    /// Runs that have one.
    pub of: usize,
    /// Of these, how many hold 1.
    pub hold: usize,
    /// The median half-width.
    pub median: f64,
}

impl SelftestRecord {
    /// Intervals of the mean over all runs.
    #[must_use]
    pub fn means(&self) -> Means {
        let means: Vec<Ratio> = self.aa_runs.iter().filter_map(AaRun::mean).collect();
        let halves: Vec<f64> = means.iter().map(Ratio::half_width).collect();
        Means {
            of: means.len(),
            hold: means.iter().filter(|m| m.lo <= 1.0 && m.hi >= 1.0).count(),
            median: stats::median(&halves).unwrap_or(0.0),
        }
    }
}
