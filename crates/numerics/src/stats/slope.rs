//! Wall time of a request over the number of calls in it.

use super::{median, quantile_in_place};

/// `wall = fixed + per_call × n`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Time of a request that does nothing, in the unit of the points.
    pub fixed: f64,
    /// Time of one call, in the unit of the points.
    pub per_call: f64,
    /// Median absolute residual, in the unit of the points.
    pub residual: f64,
}

/// The line through `(n, wall)` points: the weighted median of the slopes of all pairs of points, each weighted
/// by its distance in `n` (Theil–Sen), so that single slow requests do not move it. Work grows with the square
/// of the number of points. `None` without two different `n`, or when a coordinate is not finite.
#[must_use]
pub fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    if !points.iter().all(|(n, wall)| n.is_finite() && wall.is_finite()) {
        return None;
    }
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            if a.0 != b.0 {
                slopes.push(((b.1 - a.1) / (b.0 - a.0), (b.0 - a.0).abs()));
            }
        }
    }
    let per_call = weighted_median(&mut slopes)?;
    let mut rest: Vec<f64> = points.iter().map(|(n, wall)| wall - per_call * n).collect();
    let fixed = quantile_in_place(&mut rest, 0.5);
    let residuals: Vec<f64> = rest.iter().map(|r| (r - fixed).abs()).collect();
    Some(Slope { fixed, per_call, residual: median(&residuals)? })
}

fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|v| v.1).sum::<f64>() * 0.5;
    let mut sum = 0.0;
    for (at, &(value, weight)) in values.iter().enumerate() {
        sum += weight;
        if sum > half {
            return Some(value);
        }
        if sum == half {
            return Some(values.get(at + 1).map_or(value, |next| 0.5 * (value + next.0)));
        }
    }
    values.last().map(|v| v.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::Normals;
    use crate::rng::Pcg64;

    #[test]
    fn an_exact_line_is_found() {
        let points: Vec<(f64, f64)> = (1..=16).map(|n| (f64::from(n), 5.0 + 3.0 * f64::from(n))).collect();
        let s = slope(&points).unwrap();
        assert!((s.fixed - 5.0).abs() < 1e-12 && (s.per_call - 3.0).abs() < 1e-12 && s.residual < 1e-12);
        assert_eq!(slope(&points[..1]), None);
        assert_eq!(slope(&[(2.0, 1.0), (2.0, 3.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0), (2.0, f64::NAN)]), None);
        assert_eq!(slope(&[]), None);
    }

    #[test]
    fn noise_and_slow_requests_do_not_move_it() {
        let mut rng = Pcg64::new(5, 6);
        let normals = Normals::new();
        for _ in 0..100 {
            let points: Vec<(f64, f64)> = (0..40)
                .map(|_| {
                    let n = 1.0 + rng.below(16) as f64;
                    let slow = if rng.below(10) == 0 { 400.0 } else { 0.0 };
                    let noise = 1.0 + 0.01 * normals.narrow(rng.next_u64() as u32);
                    (n, (20.0 + 50.0 * n) * noise + slow)
                })
                .collect();
            let s = slope(&points).unwrap();
            assert!((s.per_call / 50.0 - 1.0).abs() < 0.03, "{s:?}");
        }
    }
}
