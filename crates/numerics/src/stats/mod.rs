//! Statistics of times and ratios. Nothing here knows what was measured.

mod alike;
mod interval;
mod level;
mod slope;
mod student;

pub use alike::correlation;
pub use interval::{Estimate, paired_ratio, wilson};
pub use level::{LEAST_FOR_INTERVALS, Leveled, level};
pub use slope::{Slope, slope};
pub use student::{normal_quantile, student_quantile};

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// An interval over worker instances needs at least two.
    #[error("{given} worker instances with pairs, at least {needed} are needed")]
    Instances {
        /// Instances that have pairs.
        given: usize,
        /// Instances that are needed.
        needed: usize,
    },
    /// A value that is not finite.
    #[error("a value is not finite")]
    NonFinite,
    /// A parameter outside its range.
    #[error("{name} = {value} is outside its range")]
    Parameter {
        /// Parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
}

/// The `q`-quantile (0 to 1) with linear interpolation between order statistics (type 7); `None` when empty,
/// when a value is NaN, or when `q` is outside its range.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| v.is_nan()) || !(0.0..=1.0).contains(&q) {
        return None;
    }
    Some(quantile_in_place(&mut values.to_vec(), q))
}

/// [`quantile`] of a non-empty slice without NaN, whose order it changes.
fn quantile_in_place(values: &mut [f64], q: f64) -> f64 {
    let place = q * (values.len() - 1) as f64;
    let below = place as usize;
    let (_, &mut low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let share = place - below as f64;
    if share == 0.0 {
        return low;
    }
    let high = above.iter().copied().fold(f64::INFINITY, f64::min);
    low + (high - low) * share
}

/// The median; `None` when empty or a value is NaN.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The median of the absolute deviations from the median, not rescaled; `None` as [`median`].
#[must_use]
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    median(&deviations)
}

/// The geometric mean; `None` when empty or a value is not positive and finite.
#[must_use]
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !values.iter().all(|v| v.is_finite() && *v > 0.0) {
        return None;
    }
    Some((values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::statistics::{Data, OrderStatistics};

    #[test]
    fn small_tables() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 1.0), Some(10.0));
        assert_eq!(quantile(&[0.0, 10.0], 1.1), None);
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert!((geomean(&[1.0, 4.0, 16.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geomean(&[1.0, 0.0]), None);
        assert_eq!(geomean(&[]), None);
    }

    proptest! {
        #[test]
        fn median_agrees_with_an_independent_one(values in proptest::collection::vec(-1e6f64..1e6, 1..50)) {
            let expected = Data::new(values.clone()).median();
            prop_assert!((median(&values).unwrap() - expected).abs() < 1e-6);
        }

        #[test]
        fn quantiles_are_monotone_and_inside(values in proptest::collection::vec(-1e3f64..1e3, 1..50)) {
            let q: Vec<f64> = (0..=20).map(|i| quantile(&values, f64::from(i) / 20.0).unwrap()).collect();
            prop_assert!(q.windows(2).all(|w| w[0] <= w[1]));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert_eq!(q[0], least);
        }
    }
}
