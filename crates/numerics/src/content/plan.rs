//! The stress families: how one tensor's values depart from its generator.

use super::floats::{Base, Draws};
use crate::codec::smallest_subnormal;
use crate::rng::Pcg64;
use kernelseek_core::case::{Generator, Stress, TensorCase};
use kernelseek_core::dtype::DType;

/// One outlier in each block of this many elements.
const OUTLIER_BLOCK: usize = 1000;
/// Longest row that repetition keeps; longer rows repeat inside themselves.
const LONGEST_ROW: usize = 1 << 16;

/// A family with its random choices made.
#[derive(Clone)]
pub(super) enum Plan {
    Nominal,
    /// Everything multiplied.
    Scaled {
        factor: f64,
    },
    /// One element per block multiplied, up to `cap`.
    Outliers {
        choice: Pcg64,
        block: usize,
        at: usize,
        factor: f64,
        factors: Factors,
        len: usize,
        cap: f64,
    },
    /// The same rows again and again.
    Rows {
        rows: Vec<f64>,
    },
    /// Runs of one value.
    Runs {
        choice: Pcg64,
        value: f64,
        left: usize,
    },
    /// Each row rises or falls evenly.
    Ramps {
        row: usize,
        from: f64,
        to: f64,
    },
    /// Two narrow clusters.
    Clusters {
        choice: Pcg64,
        centres: [f64; 2],
    },
    /// Nine of ten elements are `background`.
    Sparse {
        choice: Pcg64,
        background: f64,
    },
    /// Zeros, denormals, values near the safe maximum.
    Extremes {
        choice: Pcg64,
        limit: f64,
        least: f64,
        normal: f64,
        signed: bool,
        forced: usize,
    },
}

/// What outliers are multiplied by: `from` and up to `span` more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factors {
    pub from: f64,
    pub span: f64,
}

impl Factors {
    /// Those of the stress family.
    pub(super) const STRESS: Self = Self { from: 20.0, span: 80.0 };

    /// Those of a tensor whose generator asks for outliers.
    pub(super) fn nominal(tensor: &TensorCase) -> Option<Self> {
        match tensor.generator {
            Some(Generator::Normal { outliers, .. }) => outliers.map(|from| Self { from, span: 0.0 }),
            _ => None,
        }
    }
}

impl Plan {
    /// What the generator itself says.
    pub(super) fn nominal(tensor: &TensorCase, choice: Pcg64) -> Self {
        Factors::nominal(tensor).map_or(Self::Nominal, |factors| Self::outliers(tensor, choice, factors))
    }

    fn outliers(tensor: &TensorCase, choice: Pcg64, factors: Factors) -> Self {
        let (len, cap) = (tensor.len(), tensor.extreme.min(tensor.dtype.max_finite()));
        Self::Outliers { choice, block: usize::MAX, at: 0, factor: 1.0, factors, len, cap }
    }

    pub(super) fn new(tensor: &TensorCase, family: Stress, mut choice: Pcg64, draws: &mut Draws) -> Self {
        let base = draws.base();
        let len = tensor.len();
        let row = tensor.shape.last().map_or(1, |&d| usize::try_from(d).unwrap_or(1)).max(1);
        let cap = tensor.extreme.min(tensor.dtype.max_finite());
        match family {
            Stress::Scaled => Self::Scaled { factor: scale_factor(tensor, base, cap, &mut choice) },
            Stress::Outliers => Self::outliers(tensor, choice, Factors::STRESS),
            Stress::Structured => match choice.below(5) {
                0 => {
                    let mut rows = vec![0.0; row.min(LONGEST_ROW) * (1 + choice.below(4) as usize)];
                    draws.fill(&mut rows);
                    Self::Rows { rows }
                }
                1 => Self::Runs { choice, value: 0.0, left: 0 },
                2 => Self::Ramps { row, from: 0.0, to: 0.0 },
                3 => Self::Clusters { choice, centres: [draws.one(), draws.one()] },
                _ => Self::Sparse { choice, background: base.nearest(0.0) },
            },
            Stress::Extremes => {
                let forced = choice.below(len as u64) as usize;
                let least = smallest_subnormal(tensor.dtype);
                let normal = smallest_normal(tensor.dtype);
                let limit = if cap > 0.0 { cap } else { base.reach() };
                Self::Extremes { choice, limit, least, normal, signed: base.signed(), forced }
            }
        }
    }

    pub(super) fn fill(&mut self, draws: &mut Draws, position: usize, out: &mut [f64]) {
        match self {
            Self::Nominal => draws.fill(out),
            Self::Scaled { factor } => {
                draws.fill(out);
                out.iter_mut().for_each(|x| *x *= *factor);
            }
            Self::Outliers { choice, block, at, factor, factors, len, cap } => {
                draws.fill(out);
                let mut index = position;
                while index < position + out.len() {
                    if index / OUTLIER_BLOCK != *block {
                        *block = index / OUTLIER_BLOCK;
                        let start = *block * OUTLIER_BLOCK;
                        *at = start + choice.below((*len - start).min(OUTLIER_BLOCK) as u64) as usize;
                        *factor = factors.from + factors.span * choice.unit();
                    }
                    if let Some(x) = at.checked_sub(position).and_then(|i| out.get_mut(i)) {
                        // Never smaller than it was: a cap below the bulk means no outliers.
                        *x = (x.abs() * *factor).min(cap.max(x.abs())).copysign(*x);
                    }
                    index = (*block + 1) * OUTLIER_BLOCK;
                }
            }
            Self::Rows { rows } => {
                for (i, x) in out.iter_mut().enumerate() {
                    *x = rows[(position + i) % rows.len()];
                }
            }
            Self::Runs { choice, value, left } => {
                for x in out {
                    if *left == 0 {
                        *left = 1 + choice.below(64) as usize;
                        *value = draws.one();
                    }
                    *left -= 1;
                    *x = *value;
                }
            }
            Self::Ramps { row, from, to } => {
                for (i, x) in out.iter_mut().enumerate() {
                    let step = (position + i) % *row;
                    if step == 0 {
                        (*from, *to) = (draws.one(), draws.one());
                    }
                    let share = step as f64 / (*row - 1).max(1) as f64;
                    *x = *from + (*to - *from) * share;
                }
            }
            Self::Clusters { choice, centres } => {
                draws.fill(out);
                for x in out {
                    let centre = centres[choice.below(2) as usize];
                    *x = 0.95 * centre + 0.05 * *x;
                }
            }
            Self::Sparse { choice, background } => {
                draws.fill(out);
                for x in out {
                    if choice.below(10) != 0 {
                        *x = *background;
                    }
                }
            }
            Self::Extremes { choice, limit, least, normal, signed, forced } => {
                draws.fill(out);
                for (i, x) in out.iter_mut().enumerate() {
                    let pick = if position + i == *forced { 10 } else { choice.below(100) };
                    let magnitude = match pick {
                        0..5 => 0.0,
                        // Half of the tiny ones are denormal, half just above.
                        5..7 => *least * (1.0 + (choice.unit() * (*normal / *least - 1.0)).floor()),
                        7..10 => *normal * (1.0 + 15.0 * choice.unit()),
                        10 => *limit * (0.5 + 0.5 * choice.unit()),
                        _ => continue,
                    };
                    let negative = *signed && choice.next_u64() >> 63 == 1;
                    *x = if negative { -magnitude } else { magnitude };
                }
            }
        }
    }
}

/// A power of two from 2⁻⁶ to 2⁶, never 1, and not upwards where values could overflow or pass `cap`.
pub(super) fn scale_factor(tensor: &TensorCase, base: Base, cap: f64, choice: &mut Pcg64) -> f64 {
    // A quantised tensor's scale absorbs any factor.
    let absorbed = matches!(tensor.generator, Some(Generator::Quantised { .. }));
    let small = !absorbed && matches!(tensor.dtype, DType::F16 | DType::F8E4m3 | DType::F8E5m2);
    let up = if small {
        0
    } else if absorbed {
        6
    } else {
        (1..=6).rev().find(|&e| base.reach() * f64::from(1u32 << e) <= cap).unwrap_or(0)
    };
    let pick = choice.below(6 + up);
    if pick < 6 { 0.5f64.powi(pick as i32 + 1) } else { f64::from(1u32 << (pick - 5)) }
}

pub(super) fn smallest_normal(dtype: DType) -> f64 {
    // epsilon is the mantissa's last bit at 1, the smallest subnormal the same bit at the smallest normal.
    smallest_subnormal(dtype) / dtype.epsilon()
}
