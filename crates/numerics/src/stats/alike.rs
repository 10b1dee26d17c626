//! How alike several scenarios deviate that were measured in the same worker instances.

use super::student::student_quantile;

/// Correlation between the estimates of two scenarios, from 0 to 1: what it must be for the interval of their mean to be as wide as
/// the instances' own means say.
///
/// One worker instance runs every scenario, and may be a little quicker or slower at all of them. Then the mean over the scenarios
/// is less certain than independent estimates would make it: with half-widths `h` of `n` estimates its variance is
/// `(Σh² + r ((Σh)² − Σh²)) / n²`, not `Σh² / n²`. The instances' means over all scenarios are independent draws whatever they have in
/// common, so Student's interval of those holds; `r` is chosen to reach it, and is 0 where independence already does.
///
/// `levels` holds one vector a scenario with one value an instance, in the same order everywhere; `half_widths` the scenarios'
/// half-widths, both on the logarithm. `confidence` is that of the half-widths, `fitted` the parameters that were fitted to the instances and
/// taken out ([`super::level`]). What comes out is for [`kernelseek_core::verdict::half_width_of_mean`].
///
/// 0 where nothing can be said: fewer than two scenarios, as many instances as parameters, vectors of different lengths, values that are
/// not finite.
#[must_use]
pub fn correlation(levels: &[Vec<f64>], half_widths: &[f64], fitted: usize, confidence: f64) -> f64 {
    let instances = levels.first().map_or(0, Vec::len);
    let alike = levels.len() == half_widths.len() && levels.iter().all(|l| l.len() == instances);
    if levels.len() < 2 || !alike || instances < 2 + fitted || !(confidence > 0.0 && confidence < 1.0) {
        return 0.0;
    }
    let n = levels.len() as f64;
    let means: Vec<f64> =
        (0..instances).map(|i| levels.iter().filter_map(|l| l.get(i)).sum::<f64>() / n).collect();
    let centre = means.iter().sum::<f64>() / instances as f64;
    let free = (instances - 1 - fitted) as f64;
    let variance = means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / free / instances as f64;
    let reach = student_quantile(0.5 + 0.5 * confidence, free).powi(2) * variance;
    let squares = half_widths.iter().map(|h| h * h).sum::<f64>();
    let together = half_widths.iter().sum::<f64>().powi(2);
    let correlation = (reach * n * n - squares) / (together - squares);
    if correlation.is_finite() { correlation.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Pcg64, Purpose};
    use crate::stats::paired_ratio;
    use kernelseek_core::verdict::half_width_of_mean;
    use proptest::prelude::*;

    #[test]
    fn nothing_can_be_said_of_too_little() {
        let two = [vec![1.0, 2.0, 4.0], vec![3.0, 1.0, 2.0]];
        for (levels, halves, fitted, confidence) in [
            (&[][..], &[][..], 0, 0.99),
            (&two[..1], &[0.1][..], 0, 0.99),
            (&two, &[0.1][..], 0, 0.99),
            (&two, &[0.1, 0.1], 2, 0.99),
            (&two, &[0.1, 0.1], 0, 1.0),
            (&[vec![1.0, 2.0], vec![1.0]], &[0.1, 0.1], 0, 0.99),
            (&[vec![1.0, f64::NAN], vec![1.0, 2.0]], &[0.1, 0.1], 0, 0.99),
            (&two, &[0.0, 0.0], 0, 0.99),
            (&two, &[f64::INFINITY, 0.1], 0, 0.99),
        ] {
            assert_eq!(correlation(levels, halves, fitted, confidence), 0.0, "{levels:?} {halves:?}");
        }
    }

    #[test]
    fn the_mean_is_as_wide_as_the_instances_say() {
        let levels =
            vec![vec![0.01, -0.02, 0.03, 0.0], vec![0.02, -0.01, 0.02, 0.01], vec![0.0, -0.02, 0.04, 0.0]];
        let halves = [0.07, 0.09, 0.08];
        let r = correlation(&levels, &halves, 0, 0.99);
        assert!((0.05..0.95).contains(&r), "{r}");
        let half = half_width_of_mean(halves.iter().map(|h| (*h, r)));
        let means: Vec<f64> = (0..4).map(|i| levels.iter().map(|l| l[i]).sum::<f64>() / 3.0).collect();
        let centre = means.iter().sum::<f64>() / 4.0;
        let deviation = (means.iter().map(|m| (m - centre).powi(2)).sum::<f64>() / 3.0).sqrt();
        assert!((half - 5.8409 * deviation / 2.0).abs() < 1e-5, "{half}");
        // Scenarios whose instances cancel are no more certain than independent ones.
        let apart = [vec![0.01, -0.01, 0.02, -0.02], vec![-0.01, 0.01, -0.02, 0.02]];
        assert_eq!(correlation(&apart, &[0.05, 0.05], 0, 0.99), 0.0);
    }

    /// Share of runs whose interval of the mean misses the truth, 0, when the scenarios of an instance share a part of this size beside
    /// one of their own of size 1.
    fn missed(shared: f64, regard: bool) -> f64 {
        let mut rng = Pcg64::for_tensor(7, 1, Purpose::Bootstrap);
        let mut normal =
            || (0..12).map(|_| (rng.below(1 << 30) as f64) / f64::from(1u32 << 30)).sum::<f64>() - 6.0;
        let (runs, scenarios, instances) = (150, 10, 8);
        let misses = (0..runs)
            .filter(|_| {
                let common: Vec<f64> = (0..instances).map(|_| shared * normal()).collect();
                let pairs: Vec<Vec<Vec<f64>>> = (0..scenarios)
                    .map(|_| {
                        let own = common.iter().map(|c| (c + normal(), [normal(), normal(), normal()]));
                        own.map(|(at, n)| n.map(|x| 1e-3 * (at + 0.5 * x)).to_vec()).collect()
                    })
                    .collect();
                let estimates: Vec<_> =
                    pairs.iter().map(|p| paired_ratio(p, 0, 0.99, 0.0, 1).unwrap()).collect();
                let halves: Vec<f64> = estimates.iter().map(|e| e.half_width).collect();
                let median = |of: &Vec<f64>| crate::stats::median(of).unwrap();
                let levels: Vec<Vec<f64>> = pairs.iter().map(|p| p.iter().map(median).collect()).collect();
                let r = if regard { correlation(&levels, &halves, 0, 0.99) } else { 0.0 };
                let mean = estimates.iter().map(|e| e.point.ln()).sum::<f64>() / f64::from(scenarios);
                mean.abs() > half_width_of_mean(halves.iter().map(|h| (*h, r)))
            })
            .count();
        misses as f64 / f64::from(runs)
    }

    #[test]
    fn what_instances_share_does_not_make_the_mean_look_certain() {
        assert!(missed(2.0, false) > 0.1);
        assert!(missed(2.0, true) < 0.03);
        assert!(missed(0.0, true) < 0.03);
    }

    proptest! {
        #[test]
        fn it_is_a_correlation_whatever_comes(
            levels in prop::collection::vec(prop::collection::vec(-1e3f64..1e3, 0..9), 0..6),
            halves in prop::collection::vec(0.0f64..1e3, 0..6),
            fitted in 0usize..3,
        ) {
            let r = correlation(&levels, &halves, fitted, 0.99);
            prop_assert!((0.0..=1.0).contains(&r), "{r}");
            let half = half_width_of_mean(halves.iter().map(|h| (*h, r)));
            let n = halves.len().max(1) as f64;
            let least = halves.iter().map(|h| h * h).sum::<f64>().sqrt() / n;
            let most = halves.iter().sum::<f64>() / n;
            prop_assert!(half >= least * (1.0 - 1e-9) && half <= most * (1.0 + 1e-9), "{least} {half} {most}");
        }
    }
}
