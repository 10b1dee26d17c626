//! The normal distribution: density, tail, quantile, and a fast table for drawing.
//!
//! Only `+ − × ÷` and square roots are used, whose results IEEE 754 fixes. The mathematical library of a
//! machine is not asked, because its last bit differs between machines and contents must not.

use std::sync::LazyLock;

/// `e^(-x)` for `x ≥ 0` to about 13 digits.
fn exp_of_negative(x: f64) -> f64 {
    if x > 745.0 {
        return 0.0;
    }
    // Halve until small, sum the series, square back.
    let mut halvings = 0;
    let mut y = x;
    while y > 0.03125 {
        y *= 0.5;
        halvings += 1;
    }
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..=10u32 {
        term *= -y / f64::from(k);
        sum += term;
    }
    for _ in 0..halvings {
        sum *= sum;
    }
    sum
}

/// Density at `x`.
#[must_use]
pub fn density(x: f64) -> f64 {
    const INVERSE_ROOT_OF_TWO_PI: f64 = 0.398_942_280_401_432_7;
    INVERSE_ROOT_OF_TWO_PI * exp_of_negative(0.5 * x * x)
}

/// Probability of a draw above `x`.
#[must_use]
pub fn tail(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - tail(-x);
    }
    if x < 2.5 {
        // All terms positive: no cancellation.
        let mut term = x;
        let mut sum = x;
        let mut odd = 3.0;
        while term > sum * 1e-17 {
            term *= x * x / odd;
            sum += term;
            odd += 2.0;
        }
        0.5 - density(x) * sum
    } else {
        let mut fraction = x;
        for k in (1..=80u32).rev() {
            fraction = x + f64::from(k) / fraction;
        }
        density(x) / fraction
    }
}

/// The `x` that a draw exceeds with probability `q`; infinite at 0 and 1.
#[must_use]
pub fn upper_quantile(q: f64) -> f64 {
    if q > 0.5 {
        return -upper_quantile(1.0 - q);
    }
    if q <= 0.0 {
        return f64::INFINITY;
    }
    let (mut lo, mut hi) = (0.0, 38.5);
    for _ in 0..60 {
        let middle = 0.5 * (lo + hi);
        if tail(middle) > q {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    0.5 * (lo + hi)
}

const OCTAVES: usize = 32;
const CELL_BITS: u32 = 6;
const CELLS: usize = 1 << CELL_BITS;

/// `|x|` as a function of the two-sided tail probability, piecewise linear in cells that divide each octave of
/// the probability, so that the far tail is as fine as the middle.
struct Table {
    base: Box<[f64]>,
    slope: Box<[f64]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut base = vec![0.0; OCTAVES * CELLS];
    let mut slope = vec![0.0; OCTAVES * CELLS];
    let mut x = 0.0;
    let mut probability = 1.0;
    for octave in 0..OCTAVES {
        for cell in (0..CELLS).rev() {
            let upper = x;
            probability = 0.5f64.powi(octave as i32 + 1) * (1.0 + cell as f64 / CELLS as f64);
            for _ in 0..4 {
                x += (tail(x) - 0.5 * probability) / density(x);
            }
            base[octave * CELLS + cell] = x;
            slope[octave * CELLS + cell] = upper - x;
        }
    }
    debug_assert!(probability > 0.0);
    Table { base: base.into(), slope: slope.into() }
});

/// The table that normal draws are read from, (base, slope) a cell, 32 octaves of 64 cells: for devices, which keep
/// a copy.
#[must_use]
pub fn table() -> Vec<[f64; 2]> {
    TABLE.base.iter().zip(&TABLE.slope).map(|(&base, &slope)| [base, slope]).collect()
}

/// Turns random bits into normal draws.
#[derive(Clone, Copy)]
pub(crate) struct Normals(&'static Table);

impl Normals {
    pub(crate) fn new() -> Self {
        Self(&TABLE)
    }

    #[inline]
    fn cell(self, octave: u32, fraction: f64, cell: usize) -> f64 {
        let at = (octave as usize % OCTAVES) * CELLS + cell % CELLS;
        self.0.base[at] + self.0.slope[at] * fraction
    }

    /// One draw from 32 bits: good for types up to `f32`. The largest magnitude is about 6.3.
    #[inline]
    pub(crate) fn narrow(self, bits: u32) -> f64 {
        let w = (bits << 1) | 1;
        let octave = w.leading_zeros();
        let rest = (w << octave) << 1;
        let fraction = f64::from(rest << CELL_BITS) * (1.0 / 4_294_967_296.0);
        let x = self.cell(octave, fraction, (rest >> (32 - CELL_BITS)) as usize);
        f64::from_bits(x.to_bits() ^ (u64::from(bits >> 31) << 63))
    }

    /// One draw from 64 bits, for `f64`: more distinct values, the same range.
    #[inline]
    pub(crate) fn wide(self, bits: u64) -> f64 {
        let w = (bits << 1) | 1;
        // Beyond the last octave (once in 2³² draws) the last one is reused.
        let octave = w.leading_zeros().min(OCTAVES as u32 - 1);
        let rest = (w << octave) << 1;
        let fraction = (rest << CELL_BITS) as f64 * (1.0 / 18_446_744_073_709_551_616.0);
        let x = self.cell(octave, fraction, (rest >> (64 - CELL_BITS)) as usize);
        f64::from_bits(x.to_bits() ^ (bits >> 63 << 63))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Continuous, ContinuousCDF, Normal};

    #[test]
    fn agrees_with_an_independent_implementation() {
        let oracle = Normal::new(0.0, 1.0).unwrap();
        for i in -800..=800 {
            let x = f64::from(i) * 0.01;
            assert!((density(x) / oracle.pdf(x) - 1.0).abs() < 1e-11, "density at {x}");
            let expected = oracle.sf(x);
            assert!((tail(x) / expected - 1.0).abs() < 1e-9, "tail at {x}: {} {expected}", tail(x));
        }
        for q in [1e-9, 1e-4, 0.005, 0.025, 0.2, 0.5, 0.8, 0.975, 0.9999] {
            assert!((tail(upper_quantile(q)) / q - 1.0).abs() < 1e-9);
            assert!((upper_quantile(q) + oracle.inverse_cdf(q)).abs() < 1e-7);
        }
    }

    #[test]
    fn the_table_draws_normals() {
        let normals = Normals::new();
        let oracle = Normal::new(0.0, 1.0).unwrap();
        for octave in 0..32u32 {
            for k in 0..200u32 {
                let w = ((u64::from(u32::MAX >> octave)) * u64::from(k + 1) / 201) as u32;
                let bits = w >> 1;
                let q = (f64::from(bits) + 0.5) / f64::from(1u32 << 31);
                let exact = -oracle.inverse_cdf(q / 2.0);
                let drawn = normals.narrow(bits);
                assert!((drawn - exact).abs() < 2e-3, "{bits:#x}: {drawn} {exact}");
                assert_eq!(normals.narrow(bits | 1 << 31), -drawn);
                let fine = normals.wide(u64::from(bits) << 32 | 0x8000_0000);
                assert!((fine - exact).abs() < 2e-3, "{bits:#x}: {fine} {exact}");
            }
        }
    }

    #[test]
    fn moments_of_a_million_draws() {
        let normals = Normals::new();
        let mut rng = crate::rng::Pcg64::new(11, 12);
        let (mut m1, mut m2, mut m4) = (0.0, 0.0, 0.0);
        for _ in 0..1_000_000 {
            let x = normals.narrow(rng.next_u64() as u32);
            m1 += x;
            m2 += x * x;
            m4 += x * x * x * x;
        }
        assert!((m1 / 1e6).abs() < 0.005 && (m2 / 1e6 - 1.0).abs() < 0.006 && (m4 / 1e6 - 3.0).abs() < 0.05);
    }
}
