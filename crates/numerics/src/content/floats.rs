//! Real-valued draws: normal and uniform, nominal or under stress.

use super::plan::Plan;
use super::{Content, ContentError, Distribution};
use crate::normal::Normals;
use crate::rng::{Pcg64, Purpose};
use kernelseek_core::case::{Generator, TensorCase};
use kernelseek_core::dtype::DType;

/// The nominal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Base {
    Normal { mean: f64, std: f64 },
    Uniform { lo: f64, hi: f64 },
}

impl Base {
    pub(super) fn of(tensor: &TensorCase) -> Result<Self, ContentError> {
        let base = match tensor.generator {
            Some(Generator::Normal { mean, std, .. }) => Self::Normal { mean, std },
            Some(Generator::Quantised { std, .. }) => Self::Normal { mean: 0.0, std },
            Some(Generator::Uniform { lo, hi }) => Self::Uniform { lo, hi },
            _ => return Err(ContentError::misuse(tensor, "its generator draws no real numbers")),
        };
        let sound = match base {
            Self::Normal { mean, std } => mean.is_finite() && std.is_finite() && std >= 0.0,
            Self::Uniform { lo, hi } => lo <= hi && (hi - lo).is_finite(),
        };
        if !tensor.dtype.is_float() {
            let reason = format!("normal and uniform draws cannot fill {} elements", tensor.dtype);
            return Err(ContentError::misuse(tensor, reason));
        }
        if !sound {
            return Err(ContentError::misuse(
                tensor,
                "the parameters of its generator describe no distribution",
            ));
        }
        Ok(base)
    }

    /// Magnitude that hardly any draw exceeds.
    pub(super) fn reach(self) -> f64 {
        match self {
            Self::Normal { mean, std } => mean.abs() + 6.5 * std,
            Self::Uniform { lo, hi } => lo.abs().max(hi.abs()),
        }
    }

    /// The nearest value to `x` that could be drawn.
    pub(super) fn nearest(self, x: f64) -> f64 {
        match self {
            Self::Normal { .. } => x,
            Self::Uniform { lo, hi } => x.clamp(lo, hi),
        }
    }

    /// Largest value that may be drawn, because rounding to the type must not reach the open end.
    pub(super) fn below_hi(self, dtype: DType) -> f64 {
        match self {
            Self::Uniform { lo, hi } => below(dtype, hi).max(lo),
            Self::Normal { .. } => f64::INFINITY,
        }
    }

    /// Whether draws have both signs.
    pub(super) fn signed(self) -> bool {
        match self {
            Self::Normal { .. } => true,
            Self::Uniform { lo, .. } => lo < 0.0,
        }
    }
}

/// Nominal draws in order.
#[derive(Clone)]
pub(super) struct Draws {
    rng: Pcg64,
    base: Base,
    normals: Normals,
    /// 64 bits per draw (`f64`) instead of 32.
    wide: bool,
    /// Largest finite value of the type below `hi`, because rounding to the type must not reach `hi`.
    below_hi: f64,
}

impl Draws {
    pub(super) fn new(
        tensor: &TensorCase,
        seed: u64,
        index: usize,
        purpose: Purpose,
    ) -> Result<Self, ContentError> {
        let base = Base::of(tensor)?;
        let below_hi = base.below_hi(tensor.dtype);
        Ok(Self {
            rng: Pcg64::for_tensor(seed, index, purpose),
            base,
            normals: Normals::new(),
            wide: tensor.dtype == DType::F64,
            below_hi,
        })
    }

    pub(super) const fn base(&self) -> Base {
        self.base
    }

    pub(super) const fn rng(&mut self) -> &mut Pcg64 {
        &mut self.rng
    }

    /// One draw; uses 64 bits whatever the type.
    pub(super) fn one(&mut self) -> f64 {
        let mut value = [0.0];
        self.fill(&mut value);
        value[0]
    }

    pub(super) fn fill(&mut self, out: &mut [f64]) {
        match self.base {
            Base::Normal { mean, std } => {
                let normals = self.normals;
                self.map(out, |b| mean + std * normals.narrow(b), |b| mean + std * normals.wide(b));
            }
            Base::Uniform { lo, hi } => {
                let (span, last) = (hi - lo, self.below_hi);
                self.map(
                    out,
                    |b| (lo + span * (f64::from(b) * (1.0 / 4_294_967_296.0))).min(last),
                    |b| (lo + span * ((b >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0))).min(last),
                );
            }
        }
    }

    #[inline]
    fn map(&mut self, out: &mut [f64], narrow: impl Fn(u32) -> f64, wide: impl Fn(u64) -> f64) {
        if self.wide {
            out.iter_mut().for_each(|x| *x = wide(self.rng.next_u64()));
            return;
        }
        let mut pairs = out.chunks_exact_mut(2);
        for pair in &mut pairs {
            let bits = self.rng.next_u64();
            pair[0] = narrow(bits as u32);
            pair[1] = narrow((bits >> 32) as u32);
        }
        if let [last] = pairs.into_remainder() {
            *last = narrow(self.rng.next_u64() as u32);
        }
    }
}

/// The largest value of the type below `x`.
fn below(dtype: DType, x: f64) -> f64 {
    use crate::codec::round_to;
    let rounded = round_to(dtype, x);
    if rounded < x {
        return rounded;
    }
    let step = (x.abs() * dtype.epsilon()).max(crate::codec::smallest_subnormal(dtype));
    [0.25, 0.5, 1.0, 2.0].into_iter().map(|s| round_to(dtype, x - s * step)).find(|&v| v < x).unwrap_or(x)
}

/// The values of one tensor, nominal or under stress, in chunks of any even size. A clone replays them.
#[derive(Clone)]
pub(super) struct Floats {
    draws: Draws,
    plan: Plan,
    position: usize,
}

impl Floats {
    pub(super) fn new(tensor: &TensorCase, content: Content, index: usize) -> Result<Self, ContentError> {
        let mut draws = Draws::new(tensor, content.seed, index, Purpose::Values)?;
        let plan = match content.distribution {
            Distribution::Stress(family) if tensor.stress.contains(&family) => {
                let choice = Pcg64::for_tensor(content.seed, index, Purpose::Stress);
                Plan::new(tensor, family, choice, &mut draws)
            }
            _ => Plan::nominal(tensor, Pcg64::for_tensor(content.seed, index, Purpose::Stress)),
        };
        Ok(Self { draws, plan, position: 0 })
    }

    #[inline]
    pub(super) fn fill(&mut self, out: &mut [f64]) {
        self.plan.fill(&mut self.draws, self.position, out);
        self.position += out.len();
    }
}
