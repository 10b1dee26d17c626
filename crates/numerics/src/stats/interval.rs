//! Intervals: of a ratio measured in pairs over several worker instances, and of a share.

use super::student::{normal_quantile, student_quantile};
use super::{StatsError, quantile_in_place};
use crate::rng::{Pcg64, Purpose};

const RESAMPLES: usize = 1000;

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The ratio: `exp` of the median of all paired log-ratios.
    pub point: f64,
    /// Lower end of the interval.
    pub lo: f64,
    /// Upper end of the interval.
    pub hi: f64,
    /// Half of the interval's width in log-ratio (about the relative half-width).
    pub half_width: f64,
    /// Worker instances with pairs.
    pub instances: usize,
    /// Pairs over all instances.
    pub pairs: usize,
    /// The resampled medians are all the same: the data show no spread at all, which no clock does. The
    /// interval is then as wide as `aa_spread` alone makes it, and the claim is UNPROVEN.
    pub zero_width: bool,
}

/// Estimates a ratio from the log-ratios of its pairs, one vector per worker instance.
///
/// `confidence` is two-sided (0.99: the interval covers in 99 of 100 cases). `fitted` is how many parameters were fitted
/// to the instances and taken out of them beforehand ([`super::level`]). `aa_spread` is the standard
/// deviation of instance-level log-ratios between identical candidates, 0 when unknown. `seed` makes the
/// resampling repeatable.
///
/// The interval resamples instances, then pairs inside each. With three to six instances such an interval is
/// too narrow, for two reasons with one correction each. The variance between the few instances comes out too
/// small by (K − 1)/K, and it is itself an estimate: the half-width is multiplied by the ratio of Student's to
/// the normal quantile, with the degrees of freedom that Satterthwaite's formula gives for the sum of the
/// variance between instances (K − 1 degrees) and that of the pairs (pairs − K). Each fitted parameter takes one more of
/// the K − 1 away. And it may be small by luck:
/// the half-width is never below that of `aa_spread` between instances plus the pairs' own noise, so never
/// below `z × aa_spread / √K`.
///
/// # Errors
/// Fewer instances than `fitted` and two have pairs, a value is not finite, or a parameter is out of range.
pub fn paired_ratio(
    instances: &[Vec<f64>],
    fitted: usize,
    confidence: f64,
    aa_spread: f64,
    seed: u64,
) -> Result<Estimate, StatsError> {
    let groups: Vec<&[f64]> = instances.iter().map(Vec::as_slice).filter(|g| !g.is_empty()).collect();
    if groups.len() < 2 + fitted {
        return Err(StatsError::Instances { given: groups.len(), needed: 2 + fitted });
    }
    if groups.iter().any(|g| g.iter().any(|v| !v.is_finite())) {
        return Err(StatsError::NonFinite);
    }
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(StatsError::Parameter { name: "confidence", value: confidence });
    }
    if !(aa_spread >= 0.0 && aa_spread.is_finite()) {
        return Err(StatsError::Parameter { name: "aa_spread", value: aa_spread });
    }
    let k = groups.len() as f64;
    let free = (groups.len() - 1 - fitted) as f64;
    let pairs: usize = groups.iter().map(|g| g.len()).sum();
    let mut pooled = groups.concat();
    let centre = quantile_in_place(&mut pooled, 0.5);

    let mut rng = Pcg64::for_tensor(seed, groups.len(), Purpose::Bootstrap);
    let upper = 0.5 + 0.5 * confidence;
    let mut both = resample(&mut rng, &groups, true);
    let mut within = resample(&mut rng, &groups, false);
    let pair_variance = variance(&within);
    let zero_width = range(&both) == 0.0;
    let reach = |medians: &mut [f64]| {
        0.5 * (quantile_in_place(medians, upper) - quantile_in_place(medians, 1.0 - upper))
    };
    let z = normal_quantile(upper);
    // What resampling instances adds is (K − 1)/K of the variance of their medians over K, and those medians
    // carry the pairs' noise a second time.
    let between = ((variance(&both) - pair_variance) * k / free - pair_variance).max(0.0);
    let freedom = {
        let total = between + pair_variance;
        let inner = (pairs as f64 - k).max(1.0);
        let spread = between * between / free + pair_variance * pair_variance / inner;
        if spread > 0.0 { total * total / spread } else { f64::INFINITY }
    };
    let honest = if zero_width { 0.0 } else { ((between + pair_variance) / variance(&both)).sqrt() };
    let bootstrap = reach(&mut both) * honest * student_quantile(upper, freedom) / z;
    // The pairs' own half-width by quantiles as well: their noise has outliers.
    let pair_half = reach(&mut within).max(z * pair_variance.sqrt());
    let floor = (z * aa_spread / k.sqrt()).hypot(pair_half);
    let half_width = bootstrap.max(floor);
    Ok(Estimate {
        point: centre.exp(),
        lo: (centre - half_width).exp(),
        hi: (centre + half_width).exp(),
        half_width,
        instances: groups.len(),
        pairs,
        zero_width,
    })
}

/// Medians of resampled pairs: of resampled instances, or of the instances as they are.
fn resample(rng: &mut Pcg64, groups: &[&[f64]], instances_too: bool) -> Vec<f64> {
    let mut drawn = Vec::new();
    (0..RESAMPLES)
        .map(|_| {
            drawn.clear();
            for own in groups {
                let group = if instances_too { groups[rng.below(groups.len() as u64) as usize] } else { own };
                drawn.extend((0..group.len()).map(|_| group[rng.below(group.len() as u64) as usize]));
            }
            quantile_in_place(&mut drawn, 0.5)
        })
        .collect()
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0)
}

fn range(values: &[f64]) -> f64 {
    let (lo, hi) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)));
    hi - lo
}

/// Wilson's interval of a share: `successes` of `trials`, two-sided `confidence`. `None` without trials, with
/// more successes than trials, or with a confidence outside (0, 1).
#[must_use]
pub fn wilson(successes: u64, trials: u64, confidence: f64) -> Option<(f64, f64)> {
    if trials == 0 || successes > trials || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let n = trials as f64;
    let share = successes as f64 / n;
    let z2 = normal_quantile(0.5 + 0.5 * confidence).powi(2);
    let centre = share + z2 / (2.0 * n);
    let spread = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt();
    let scale = 1.0 + z2 / n;
    Some((((centre - spread) / scale).max(0.0), ((centre + spread) / scale).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_table() {
        // Published values for 95 %.
        let close = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 5e-4 && (b - d).abs() < 5e-4;
        assert!(close(wilson(0, 10, 0.95).unwrap(), (0.0, 0.2775)));
        assert!(close(wilson(5, 10, 0.95).unwrap(), (0.2366, 0.7634)));
        assert!(close(wilson(95, 100, 0.95).unwrap(), (0.8882, 0.9785)));
        assert_eq!(wilson(1, 0, 0.95), None);
        assert_eq!(wilson(2, 1, 0.95), None);
        assert_eq!(wilson(1, 2, 1.0), None);
    }

    #[test]
    fn refuses_what_it_cannot_estimate() {
        let good = vec![vec![0.1, 0.2], vec![0.1]];
        assert!(paired_ratio(&good, 0, 0.99, 0.0, 1).is_ok());
        assert!(matches!(
            paired_ratio(&good[..1], 0, 0.99, 0.0, 1),
            Err(StatsError::Instances { given: 1, needed: 2 })
        ));
        assert!(matches!(
            paired_ratio(&good, 1, 0.99, 0.0, 1),
            Err(StatsError::Instances { given: 2, needed: 3 })
        ));
        assert!(paired_ratio(&[vec![0.1], vec![]], 0, 0.99, 0.0, 1).is_err());
        assert!(paired_ratio(&[vec![0.1], vec![f64::NAN]], 0, 0.99, 0.0, 1).is_err());
        assert!(paired_ratio(&good, 0, 1.0, 0.0, 1).is_err());
        assert!(paired_ratio(&good, 0, 0.99, -1.0, 1).is_err());
    }

    #[test]
    fn is_repeatable_and_flags_data_without_spread() {
        let data = vec![vec![0.05, 0.07, 0.06], vec![0.04, 0.05, 0.09], vec![0.06, 0.03, 0.07]];
        let a = paired_ratio(&data, 0, 0.99, 0.002, 7).unwrap();
        assert_eq!(a, paired_ratio(&data, 0, 0.99, 0.002, 7).unwrap());
        assert!(!a.zero_width && a.lo < a.point && a.point < a.hi);
        assert_eq!((a.instances, a.pairs), (3, 9));
        assert!((a.point - 0.06f64.exp()).abs() < 1e-12);

        let flat = paired_ratio(&vec![vec![0.5; 10]; 3], 0, 0.99, 0.01, 7).unwrap();
        assert!(flat.zero_width);
        assert!((flat.half_width - normal_quantile(0.995) * 0.01 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(paired_ratio(&vec![vec![0.5; 10]; 3], 0, 0.99, 0.0, 7).unwrap().half_width, 0.0);
    }
}
