//! Quantiles of the normal and of Student's distribution (any positive degrees of freedom).

use crate::normal;

/// The normal quantile: the `x` below which a draw falls with probability `p`; infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    -normal::upper_quantile(p)
}

/// The quantile of Student's distribution with `freedom` degrees of freedom (not necessarily whole), for `p`
/// in (0, 1). Beyond 10⁶ degrees it is the normal one.
#[must_use]
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    if p == 0.5 {
        return 0.0;
    }
    if p < 0.5 {
        return -student_quantile(1.0 - p, freedom);
    }
    if freedom > 1e6 {
        return normal_quantile(p);
    }
    let above = |t: f64| 0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + t * t));
    let (mut lo, mut hi) = (0.0, 1.0);
    while above(hi) > 1.0 - p && hi < 1e12 {
        hi *= 2.0;
    }
    for _ in 0..80 {
        let middle = 0.5 * (lo + hi);
        if above(middle) > 1.0 - p {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    0.5 * (lo + hi)
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly below the mean of the distribution only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let guard = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..=500u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// Logarithm of the gamma function for positive arguments: shifted up, then Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.918_938_533_204_672_7 + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, StudentsT};

    #[test]
    fn agrees_with_an_independent_implementation() {
        for freedom in [1.0, 2.0, 2.5, 3.0, 5.0, 17.3, 120.0, 5000.0] {
            let oracle = StudentsT::new(0.0, 1.0, freedom).unwrap();
            for p in [0.001, 0.025, 0.3, 0.5, 0.9, 0.975, 0.995, 0.9995] {
                let t = student_quantile(p, freedom);
                assert!((oracle.cdf(t) - p).abs() < 1e-9, "{freedom} {p}: {t} {}", oracle.cdf(t));
            }
        }
        assert!((student_quantile(0.995, 2.0) - 9.924_843_2).abs() < 1e-6);
        assert!((student_quantile(0.995, 1e7) - normal_quantile(0.995)).abs() < 1e-9);
    }

    #[test]
    fn log_gamma_of_whole_numbers_is_log_factorial() {
        let mut factorial = 0.0f64;
        for n in 1..30u32 {
            assert!((ln_gamma(f64::from(n)) - factorial).abs() < 1e-11 * factorial.max(1.0), "{n}");
            factorial += f64::from(n).ln();
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
    }
}
