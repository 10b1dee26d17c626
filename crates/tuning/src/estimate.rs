//! Ratios as logarithms with their uncertainty: what is told apart, and what two measurements say together.

use kernelseek_core::verdict::Ratio;
use serde::{Deserialize, Serialize};

/// A log-ratio with the distances to the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The logarithm.
    pub log: f64,
    /// Distance to the lower end.
    pub down: f64,
    /// Distance to the upper end.
    pub up: f64,
}

impl Estimate {
    /// The estimate of a measured ratio; `None` if it is not a positive finite one.
    #[must_use]
    pub fn of(ratio: &Ratio) -> Option<Self> {
        let fine =
            ratio.lo > 0.0 && ratio.lo <= ratio.point && ratio.point <= ratio.hi && ratio.hi.is_finite();
        fine.then(|| Self {
            log: ratio.point.ln(),
            down: ratio.point.ln() - ratio.lo.ln(),
            up: ratio.hi.ln() - ratio.point.ln(),
        })
    }

    /// The ratio.
    #[must_use]
    pub fn point(&self) -> f64 {
        self.log.exp()
    }
    /// Lower end as a ratio.
    #[must_use]
    pub fn lo(&self) -> f64 {
        self.low().exp()
    }
    /// Upper end as a ratio.
    #[must_use]
    pub fn hi(&self) -> f64 {
        self.high().exp()
    }
    fn low(&self) -> f64 {
        self.log - self.down
    }
    fn high(&self) -> f64 {
        self.log + self.up
    }

    /// Whether this is above `other`: the interval of their difference lies above 0. The errors are independent, so their
    /// distances add in quadrature.
    #[must_use]
    pub fn above(&self, other: &Self) -> bool {
        self.over(other).low() > 0.0
    }

    /// What two independent measurements of the same thing say together: each weighs as the inverse of its width squared.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let weight = |e: &Self| 1.0 / ((e.down + e.up) / 2.0).max(1e-6).powi(2);
        let (a, b) = (weight(self), weight(other));
        let part = |x: f64, y: f64| ((a * x).powi(2) + (b * y).powi(2)).sqrt() / (a + b);
        Self {
            log: (a * self.log + b * other.log) / (a + b),
            down: part(self.down, other.down),
            up: part(self.up, other.up),
        }
    }

    /// The geometric mean; errors are independent. `None` of nothing.
    #[must_use]
    pub fn mean(all: &[Self]) -> Option<Self> {
        if all.is_empty() {
            return None;
        }
        let n = all.len() as f64;
        let square = |side: fn(&Self) -> f64| all.iter().map(|e| side(e).powi(2)).sum::<f64>().sqrt() / n;
        Some(Self {
            log: all.iter().map(|e| e.log).sum::<f64>() / n,
            down: square(|e| e.down),
            up: square(|e| e.up),
        })
    }

    /// This over `other`; both are ratios to the same seed, measured independently.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self { log: self.log - other.log, down: self.down.hypot(other.up), up: self.up.hypot(other.down) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(point: f64, half: f64) -> Estimate {
        Estimate { log: point.ln(), down: half, up: half }
    }

    #[test]
    fn only_what_no_interval_leaves_open_is_above() {
        assert!(e(1.3, 0.05).above(&e(1.0, 0.05)));
        assert!(!e(1.05, 0.05).above(&e(1.0, 0.05)));
        assert!(e(1.08, 0.05).above(&e(1.0, 0.05)), "in quadrature: 0.071");
        assert!(!e(1.0, 0.0).above(&e(1.0, 0.0)));
    }

    #[test]
    fn measuring_again_narrows_and_means_average() {
        let twice = e(1.2, 0.1).with(&e(1.2, 0.1));
        assert!((twice.point() - 1.2).abs() < 1e-12 && (twice.down - 0.1 / 2f64.sqrt()).abs() < 1e-12);
        let uneven = e(1.0, 0.01).with(&e(2.0, 1.0));
        assert!(uneven.point() < 1.001, "the narrow one decides");
        let mean = Estimate::mean(&[e(2.0, 0.02), e(0.5, 0.02)]).unwrap();
        assert!(mean.log.abs() < 1e-12 && mean.up < 0.02);
        assert_eq!(Estimate::mean(&[]), None);
    }

    #[test]
    fn what_is_no_ratio_is_no_estimate() {
        let r = |point, lo, hi| Ratio { point, lo, hi, instances: 3, pairs: 9, correlation: None };
        assert!(Estimate::of(&r(1.0, 0.9, 1.1)).is_some());
        for bad in [r(f64::NAN, 0.9, 1.1), r(1.0, 0.0, 1.1), r(1.0, 0.9, f64::INFINITY), r(1.0, 1.1, 1.2)] {
            assert_eq!(Estimate::of(&bad), None, "{bad:?}");
        }
    }
}
