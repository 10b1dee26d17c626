//! How one tensor's values are made from their index: the twin of `content.cuh` in the device crate.

use super::super::floats::Base;
use super::super::plan::{Factors, scale_factor, smallest_normal};
use super::super::{Content, ContentError, Distribution};
use crate::codec::smallest_subnormal;
use crate::normal::Normals;
use crate::rng::{Pcg64, Purpose, mix};
use kernelseek_core::case::{Stress, TensorCase};
use kernelseek_core::dtype::DType;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// One outlier in each block of this many elements.
const OUTLIER_BLOCK: u64 = 1000;
/// Longest row that repetition keeps; longer rows repeat inside themselves.
const LONGEST_ROW: u64 = 1 << 16;

/// Key of one purpose of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u64; 2]);

impl Key {
    /// The key of tensor `index` of the content with this seed.
    pub(super) const fn new(seed: u64, index: usize, purpose: Purpose) -> Self {
        // Not the words that `ks-pcg64-1` starts from: the two streams share nothing.
        let high = mix(seed.wrapping_add(STEP) ^ 0x6B73_2D63_6F75_6E74);
        let low = mix(high ^ mix((index as u64) << 8 | purpose as u64));
        Self([low, mix(low.rotate_left(32) ^ high)])
    }

    /// Word `counter` of the stream.
    #[must_use]
    #[inline]
    pub const fn bits(self, counter: u64) -> u64 {
        mix(mix(self.0[0] ^ counter.wrapping_mul(STEP)).wrapping_add(self.0[1]))
    }
}

#[inline]
pub(super) const fn below(bits: u64, bound: u64) -> u64 {
    ((bits as u128 * bound as u128) >> 64) as u64
}

#[inline]
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// What a stress family makes of the draws. The numbers are part of the kernels' interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Family {
    Nominal = 0,
    Scaled = 1,
    Outliers = 2,
    Rows = 3,
    Runs = 4,
    Ramps = 5,
    Clusters = 6,
    Sparse = 7,
    Extremes = 8,
}

/// A tensor's values with every random choice made: value `i` depends on this and on `i` alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    key: Key,
    choices: Key,
    uniform: bool,
    family: Family,
    len: u64,
    wide: bool,
    a: f64,
    b: f64,
    last: f64,
    n: [u64; 2],
    p: [f64; 3],
}

impl Plan {
    /// The plan of tensor `index`, whose generator draws real numbers.
    ///
    /// # Errors
    /// The generator draws none, or cannot fill the tensor's type.
    pub fn new(tensor: &TensorCase, content: Content, index: usize) -> Result<Self, ContentError> {
        let mut plan = Self::nominal(tensor, content.seed, index, Purpose::Values)?;
        match content.distribution {
            Distribution::Stress(family) if tensor.stress.contains(&family) => {
                plan.stress(tensor, family, content.seed, index)?;
            }
            _ => {
                if let Some(factors) = Factors::nominal(tensor) {
                    plan.outliers(tensor, factors);
                }
            }
        }
        Ok(plan)
    }

    /// Nominal draws for some purpose.
    pub(super) fn nominal(
        tensor: &TensorCase,
        seed: u64,
        index: usize,
        purpose: Purpose,
    ) -> Result<Self, ContentError> {
        let base = Base::of(tensor)?;
        let (uniform, a, b, last) = match base {
            Base::Normal { mean, std } => (false, mean, std, f64::INFINITY),
            Base::Uniform { lo, hi } => (true, lo, hi - lo, base.below_hi(tensor.dtype)),
        };
        Ok(Self {
            key: Key::new(seed, index, purpose),
            choices: Key::new(seed, index, Purpose::Stress),
            uniform,
            family: Family::Nominal,
            len: tensor.len() as u64,
            wide: tensor.dtype == DType::F64,
            a,
            b,
            last,
            n: [0; 2],
            p: [0.0; 3],
        })
    }

    fn outliers(&mut self, tensor: &TensorCase, factors: Factors) {
        self.family = Family::Outliers;
        self.p = [tensor.extreme.min(tensor.dtype.max_finite()), factors.from, factors.span];
    }

    fn stress(
        &mut self,
        tensor: &TensorCase,
        family: Stress,
        seed: u64,
        index: usize,
    ) -> Result<(), ContentError> {
        let base = Base::of(tensor)?;
        // The choices that are made once; those of single elements are `self.choices`, by index.
        let mut choice = Pcg64::for_tensor(seed, index, Purpose::Stress);
        let row = tensor.shape.last().map_or(1, |&d| d.max(1) as u64);
        let cap = tensor.extreme.min(tensor.dtype.max_finite());
        match family {
            Stress::Scaled => {
                self.family = Family::Scaled;
                self.p[0] = scale_factor(tensor, base, cap, &mut choice);
            }
            Stress::Outliers => self.outliers(tensor, Factors::STRESS),
            Stress::Structured => match choice.below(5) {
                0 => {
                    self.family = Family::Rows;
                    self.n[0] = row.min(LONGEST_ROW) * (1 + choice.below(4));
                }
                1 => self.family = Family::Runs,
                2 => {
                    self.family = Family::Ramps;
                    self.n[0] = row;
                }
                3 => {
                    let bits = [choice.next_u64(), choice.next_u64()];
                    let centres = bits.map(|b| self.shape_bits(b));
                    self.p[..2].copy_from_slice(&centres);
                    self.family = Family::Clusters;
                }
                _ => {
                    self.family = Family::Sparse;
                    self.p[0] = base.nearest(0.0);
                }
            },
            Stress::Extremes => {
                self.family = Family::Extremes;
                let limit = if cap > 0.0 { cap } else { base.reach() };
                self.p = [limit, smallest_subnormal(tensor.dtype), smallest_normal(tensor.dtype)];
                self.n = [choice.below(self.len), u64::from(base.signed())];
            }
        }
        Ok(())
    }

    /// The structure as the kernels take it: `ks_plan`.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let [key0, key1] = self.key.0;
        let [pick0, pick1] = self.choices.0;
        let mut words = vec![key0, key1, pick0, pick1];
        words.extend([u64::from(self.uniform), self.family as u64, self.len, u64::from(self.wide)]);
        words.extend([self.a, self.b, self.last].map(f64::to_bits));
        words.extend(self.n);
        words.extend(self.p.map(f64::to_bits));
        words
    }

    fn shape_narrow(&self, bits: u32) -> f64 {
        if !self.uniform {
            return self.a + self.b * Normals::new().narrow(bits);
        }
        let x = self.a + self.b * (f64::from(bits) * (1.0 / 4_294_967_296.0));
        if x < self.last { x } else { self.last }
    }

    fn shape_wide(&self, bits: u64) -> f64 {
        if !self.uniform {
            return self.a + self.b * Normals::new().wide(bits);
        }
        let x = self.a + self.b * unit(bits);
        if x < self.last { x } else { self.last }
    }

    /// One nominal value from 64 random bits.
    pub(super) fn shape_bits(&self, bits: u64) -> f64 {
        if self.wide { self.shape_wide(bits) } else { self.shape_narrow((bits >> 32) as u32) }
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn key(&self) -> Key {
        self.key
    }

    /// Nominal draw `i`: two narrow ones share 64 bits.
    fn draw(&self, i: u64) -> f64 {
        if self.wide {
            return self.shape_wide(self.key.bits(i));
        }
        let bits = self.key.bits(i >> 1);
        self.shape_narrow(if i & 1 == 0 { bits as u32 } else { (bits >> 32) as u32 })
    }

    /// Where in a block of 64 elements a run begins: one place in 32, and at least one in four blocks.
    fn run_starts(&self, block: u64) -> u64 {
        let starts = (0..5).fold(u64::MAX, |s, k| s & self.choices.bits(block * 5 + k));
        starts | u64::from(block.is_multiple_of(4))
    }

    /// The last beginning of a run at or before `i`.
    fn run_of(&self, i: u64) -> u64 {
        let mut block = i / 64;
        let mut starts = self.run_starts(block) & (u64::MAX >> (63 - i % 64));
        while starts == 0 {
            block -= 1;
            starts = self.run_starts(block);
        }
        block * 64 + 63 - u64::from(starts.leading_zeros())
    }

    /// Value `i` of the tensor, before it is rounded to the tensor's type.
    #[must_use]
    pub fn value(&self, i: u64) -> f64 {
        let [p0, p1, p2] = self.p;
        let [n0, n1] = self.n;
        match self.family {
            Family::Nominal => self.draw(i),
            Family::Scaled => self.draw(i) * p0,
            Family::Outliers => {
                let x = self.draw(i);
                let block = i / OUTLIER_BLOCK;
                let start = block * OUTLIER_BLOCK;
                let here = (self.len - start).min(OUTLIER_BLOCK);
                if i != start + below(self.choices.bits(2 * block), here) {
                    return x;
                }
                let factor = p1 + p2 * unit(self.choices.bits(2 * block + 1));
                // Never smaller than it was: a cap below the bulk means no outliers.
                let far = (x.abs() * factor).min(x.abs().max(p0));
                if x < 0.0 { -far } else { far }
            }
            Family::Rows => self.draw(i % n0),
            Family::Runs => self.draw(self.run_of(i)),
            Family::Ramps => {
                let (row, step) = (i / n0, i % n0);
                let (from, to) = (self.draw(2 * row), self.draw(2 * row + 1));
                from + (to - from) * (step as f64 / (n0 - 1).max(1) as f64)
            }
            Family::Clusters => {
                let centre = if self.choices.bits(i) >> 63 == 1 { p1 } else { p0 };
                0.95 * centre + 0.05 * self.draw(i)
            }
            Family::Sparse => {
                if below(self.choices.bits(i), 10) == 0 {
                    self.draw(i)
                } else {
                    p0
                }
            }
            Family::Extremes => {
                let pick = if i == n0 { 10 } else { below(self.choices.bits(2 * i), 100) };
                if pick > 10 {
                    return self.draw(i);
                }
                let bits = self.choices.bits(2 * i + 1);
                let magnitude = match pick {
                    10 => p0 * (0.5 + 0.5 * unit(bits)),
                    7..10 => p2 * (1.0 + 15.0 * unit(bits)),
                    // Half of the tiny ones are denormal, half just above.
                    5..7 => p1 * (1.0 + (unit(bits) * (p2 / p1 - 1.0)).floor()),
                    _ => 0.0,
                };
                if n1 == 1 && bits & 1 == 1 { -magnitude } else { magnitude }
            }
        }
    }
}
