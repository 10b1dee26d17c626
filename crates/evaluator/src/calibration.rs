//! The seed against itself: how far apart two workers running the same code come out on this device.
//!
//! Pages, address layout and caches differ from one process to the next and shift every time within it, so a ratio's
//! interval must clear this spread and not only the scatter of pairs. It is measured once for each problem, seed,
//! mode and device, and kept.

use crate::scenario_state::ScenarioState;
use kernelseek_numerics::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Spread assumed before anything was measured: half a percent, about what a quiet machine shows.
pub const PRIOR: f64 = 0.005;

/// Spread of the seed against itself from which on it hides what is to be measured; a busy machine is likelier than a
/// restless kernel.
pub const UNSTEADY: f64 = 0.05;
/// Fewest instances whose spread is told without the effect of the places: one number out of four is little to fit, and the
/// spread is drawn to that of all scenarios.
const LEAST_LEVELED: usize = 4;
/// Times that an unsteady calibration is measured again.
const AGAIN: u32 = 3;

/// How restless a scenario's pairs are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of the log-ratios of single pairs within an instance.
    pub scatter: f64,
    /// One call of the seed, nanoseconds.
    pub call_ns: f64,
}

/// The spread of each scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// Standard deviation of instance-level log-ratios, pooled over scenarios.
    pub pooled: f64,
    /// Of each scenario alone.
    pub scenarios: BTreeMap<String, f64>,
    /// How many pairs each scenario needs follows from this.
    #[serde(default)]
    pub noise: BTreeMap<String, Noise>,
    /// Geometric mean of the seed's ratio to itself.
    pub geomean: f64,
    /// How often it was measured because it was unsteady.
    #[serde(default)]
    pub again: u32,
}

impl Calibration {
    /// Summarises states in which the seed stood in the candidate's place.
    #[must_use]
    pub fn of(states: &[ScenarioState]) -> Self {
        let mut scenarios = BTreeMap::new();
        let mut means = Vec::new();
        let mut noise = BTreeMap::new();
        for state in states {
            let scatter = pooled_deviation(&state.log_ratios());
            if let (Some(scatter), Some(call_ns)) = (scatter, state.per_call(|p| p.seed_ns)) {
                noise.insert(state.case.id.clone(), Noise { scatter, call_ns });
            }
            let leveled = state.leveled(LEAST_LEVELED);
            let levels: Vec<f64> =
                leveled.instances.iter().filter_map(|pairs| stats::median(pairs)).collect();
            if levels.len() >= 2 {
                scenarios.insert(state.case.id.clone(), standard_deviation(&levels, leveled.fitted));
                means.extend(stats::median(&levels));
            }
        }
        let n = scenarios.len().max(1) as f64;
        let pooled = (scenarios.values().map(|s| s * s).sum::<f64>() / n).sqrt();
        let geomean = (means.iter().sum::<f64>() / means.len().max(1) as f64).exp();
        Self { pooled, scenarios, noise, geomean, again: 0 }
    }

    /// The spread to use for a scenario: its own, drawn half-way (in variance) to the pooled one, since few instances
    /// say little about one scenario.
    #[must_use]
    pub fn spread(&self, scenario: &str) -> f64 {
        self.scenarios
            .get(scenario)
            .map_or(self.pooled.max(PRIOR), |own| (0.5 * (own * own + self.pooled * self.pooled)).sqrt())
    }

    /// Whether every one of `ids` was measured.
    #[must_use]
    pub fn covers<'a>(&self, mut ids: impl Iterator<Item = &'a str>) -> bool {
        ids.all(|id| self.scenarios.contains_key(id))
    }

    /// Whether measuring it once more may tell the machine's bad moment from the kernel's nature: it widens every interval
    /// from now on.
    #[must_use]
    pub fn is_worth_another(&self) -> bool {
        self.pooled > UNSTEADY && self.again < AGAIN
    }

    /// What to keep of this calibration beside an earlier one: of two that cover the same, the calmer.
    #[must_use]
    pub fn beside(mut self, earlier: Self, covers_the_same: bool) -> Self {
        let again = earlier.again + u32::from(earlier.is_worth_another() && covers_the_same);
        if covers_the_same && earlier.pooled < self.pooled {
            return Self { again, ..earlier };
        }
        self.absorb(earlier);
        self.again = again;
        self
    }

    /// Takes over the scenarios of an earlier calibration that this one lacks.
    pub fn absorb(&mut self, earlier: Self) {
        for (id, spread) in earlier.scenarios {
            self.scenarios.entry(id).or_insert(spread);
        }
        for (id, noise) in earlier.noise {
            self.noise.entry(id).or_insert(noise);
        }
    }

    /// Where a calibration is kept.
    #[must_use]
    pub fn file(state_dir: &Path, key: &str) -> PathBuf {
        state_dir.join("calibrations").join(format!("{key}.json"))
    }

    /// Reads a kept calibration; a damaged one is as good as none.
    #[must_use]
    pub fn load(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Keeps the calibration; failing to only costs time later.
    pub fn save(&self, file: &Path) {
        if let (Some(folder), Ok(text)) = (file.parent(), serde_json::to_vec_pretty(self)) {
            let _ = std::fs::create_dir_all(folder);
            let temporary = file.with_extension(format!("tmp{}", std::process::id()));
            if std::fs::write(&temporary, text).is_ok() {
                let _ = std::fs::rename(&temporary, file);
            }
        }
    }
}

/// Standard deviation of values around the means of their groups; `None` without a group of two.
fn pooled_deviation(groups: &[Vec<f64>]) -> Option<f64> {
    let (mut squares, mut free) = (0.0, 0);
    for group in groups.iter().filter(|g| g.len() >= 2) {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        squares += group.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        free += group.len() - 1;
    }
    (free > 0).then(|| (squares / free as f64).sqrt())
}

/// Standard deviation of values out of which `fitted` parameters have been taken beside their mean.
fn standard_deviation(values: &[f64], fitted: usize) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let free = (n - 1.0 - fitted as f64).max(1.0);
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / free).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_shrink_to_the_pooled_one() {
        let calibration = Calibration {
            pooled: 0.01,
            scenarios: [("a".to_owned(), 0.0), ("b".to_owned(), 0.02)].into(),
            noise: BTreeMap::new(),
            geomean: 1.0,
            again: 0,
        };
        assert!((calibration.spread("a") - 0.01 / 2f64.sqrt()).abs() < 1e-12);
        assert!(calibration.spread("b") < 0.02 && calibration.spread("b") > 0.01);
        assert_eq!(calibration.spread("unknown"), 0.01);
        assert!(calibration.covers(["a", "b"].into_iter()));
        assert!(!calibration.covers(["a", "c"].into_iter()));
    }

    #[test]
    fn the_calm_one_of_two_is_kept_and_a_busy_one_measured_again_a_few_times() {
        let of = |pooled: f64| Calibration {
            pooled,
            scenarios: [("a".to_owned(), pooled)].into(),
            noise: BTreeMap::new(),
            geomean: 1.0,
            again: 0,
        };
        assert!(of(0.3).is_worth_another() && !of(0.04).is_worth_another());
        assert_eq!(of(0.02).beside(of(0.3), true).pooled, 0.02);
        assert_eq!(of(0.4).beside(of(0.3), true).pooled, 0.3);
        let mut kept = of(0.3);
        let mut rounds = 0;
        while kept.is_worth_another() {
            kept = of(0.5).beside(kept, true);
            rounds += 1;
        }
        assert_eq!((rounds, kept.pooled), (AGAIN, 0.3));
        // Another set of scenarios is no second opinion.
        assert_eq!(of(0.4).beside(of(0.3), false).pooled, 0.4);
    }

    #[test]
    fn scatter_is_that_within_instances() {
        assert_eq!(pooled_deviation(&[vec![1.0, 3.0], vec![101.0, 103.0], vec![7.0]]), Some(2f64.sqrt()));
        assert_eq!(pooled_deviation(&[vec![1.0], vec![]]), None);
    }

    #[test]
    fn a_damaged_file_is_no_calibration() {
        let folder = tempfile::tempdir().unwrap();
        let file = Calibration::file(folder.path(), "k");
        assert!(Calibration::load(&file).is_none());
        let calibration = Calibration { pooled: 0.01, ..Calibration::default() };
        calibration.save(&file);
        assert_eq!(Calibration::load(&file), Some(calibration));
        std::fs::write(&file, "{").unwrap();
        assert!(Calibration::load(&file).is_none());
    }
}
