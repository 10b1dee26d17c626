//! Is an error small enough? Pure decisions over [`ErrorSummary`].
//!
//! The measure is the *error yardstick*: what the seed (or a declared precision model) itself gets wrong,
//! normalised so that it holds for every content of the same distribution. Errors behave in one of two ways:
//! they follow the element's own magnitude (element-wise operators) or that of the whole output (reductions).
//! The bound of the largest elements therefore takes the larger of two normalisations, by RMS and by the
//! largest magnitude; that of the smaller classes is in units of their upper edge, which both ways respect
//! and which, unlike the largest value that happened to fall into the class, is the same in every content.

use crate::codec::smallest_subnormal;
use crate::metrics::{Class, ErrorSummary};
use kernelseek_core::case::Tolerance;
use kernelseek_core::dtype::DType;

/// With fewer elements in a class, its largest error says little: the yardstick's overall maximum stands in.
pub const CLASS_MINIMUM: usize = 64;

/// The yardstick of one output. All figures are relative to the reference.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Yardstick {
    /// Largest error / reference RMS.
    pub max_by_rms: f64,
    /// Largest error / largest reference magnitude.
    pub max_by_peak: f64,
    /// RMS error / reference RMS.
    pub rms: f64,
    /// Largest error per class: `Large` / reference RMS, `Medium` and `Small` / (class edge × reference RMS).
    pub class_by_scale: [f64; 3],
    /// Largest error of the class `Large` / largest reference magnitude.
    pub large_by_peak: f64,
    /// Largest error where every reference element is 0: there is nothing to be relative to.
    pub absolute: f64,
    /// Largest reference RMS of the contents: the scale of an output that is too small to have its own.
    pub typical_rms: f64,
    /// Elements that the figures come from.
    pub samples: usize,
}

/// Over few elements a yardstick is small by luck: with `n` of them it counts `1 + 8/n` times. This keeps
/// false failures of one-element outputs, measured over three contents, below one in a thousand.
const SMALL_SAMPLE: f64 = 8.0;

/// A yardstick that would allow anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum YardstickError {
    /// The seed or model is not finite where the reference is, or the other way round.
    #[error(
        "{count} elements are not finite where the reference is, or the other way round; first at {first:?}"
    )]
    NonFinite {
        /// How many.
        count: usize,
        /// The first.
        first: Option<usize>,
    },
    /// The seed or model differs from an integer reference.
    #[error("{count} integer elements differ from the reference; first at {first:?}")]
    Mismatch {
        /// How many.
        count: usize,
        /// The first.
        first: Option<usize>,
    },
}

/// The yardstick that a seed's errors and, if the problem declares one, a precision model's give together:
/// element-wise the larger.
///
/// # Errors
/// One of them is unusable as a measure.
pub fn yardstick(seed: &ErrorSummary, model: Option<&ErrorSummary>) -> Result<Yardstick, YardstickError> {
    let own = Yardstick::of(seed)?;
    model.map_or(Ok(own), |m| Ok(own.larger(&Yardstick::of(m)?)))
}

impl Yardstick {
    /// The yardstick of one summary.
    ///
    /// # Errors
    /// Its errors are not finite, or integers differ.
    pub fn of(summary: &ErrorSummary) -> Result<Self, YardstickError> {
        if let Some(exact) = summary.exact {
            return match exact.count {
                0 => Ok(Self::default()),
                count => Err(YardstickError::Mismatch { count, first: exact.first }),
            };
        }
        let wrong = summary.nonfinite.unexpected + summary.nonfinite.mismatched;
        if wrong > 0 || !summary.max_err.is_finite() || !summary.rms_err.is_finite() {
            return Err(YardstickError::NonFinite { count: wrong, first: summary.nonfinite.first });
        }
        if summary.ref_rms == 0.0 {
            return Ok(Self { absolute: summary.max_err, samples: summary.count, ..Self::default() });
        }
        let max_by_rms = summary.max_err / summary.ref_rms;
        let max_by_peak = summary.max_err / summary.ref_max;
        let populated = |class: Class| summary.classes[class as usize].count >= CLASS_MINIMUM;
        let class_by_scale = Class::ALL.map(|class| {
            let own = summary.classes[class as usize].max_err;
            let error = if populated(class) { own } else { summary.max_err };
            error / (summary.ref_rms * unit(class))
        });
        let large = if populated(Class::Large) { summary.classes[0].max_err } else { summary.max_err };
        Ok(Self {
            max_by_rms,
            max_by_peak,
            rms: summary.rms_err / summary.ref_rms,
            class_by_scale,
            large_by_peak: large / summary.ref_max,
            absolute: 0.0,
            typical_rms: summary.ref_rms,
            samples: summary.classes.iter().map(|c| c.count).sum(),
        })
    }

    /// Element-wise the larger of two measures of the same content: a seed and a model.
    #[must_use]
    pub fn larger(&self, other: &Self) -> Self {
        let mut result = *self;
        for (mine, theirs) in result.figures_mut().into_iter().zip(other.figures()) {
            *mine = mine.max(theirs);
        }
        result.typical_rms = self.typical_rms.max(other.typical_rms);
        result.samples = self.samples.max(other.samples);
        result
    }

    /// Element-wise the larger over two contents of one distribution, whose elements add up.
    #[must_use]
    pub fn and_content(&self, other: &Self) -> Self {
        Self { samples: self.samples.saturating_add(other.samples), ..self.larger(other) }
    }

    fn small_sample(&self) -> f64 {
        if self.samples == 0 { 1.0 } else { 1.0 + SMALL_SAMPLE / self.samples as f64 }
    }

    /// The largest factor by which a figure of this yardstick exceeds that of `other`; 1 when none does,
    /// infinite when `other` has no error where this one has. A model that is looser than 4 × the seed needs a
    /// written reason.
    #[must_use]
    pub fn looser_than(&self, other: &Self) -> f64 {
        self.figures()
            .into_iter()
            .zip(other.figures())
            .filter(|(a, b)| a > b)
            .map(|(a, b)| a / b)
            .fold(1.0, f64::max)
    }

    const fn figures(&self) -> [f64; 8] {
        let [large, medium, small] = self.class_by_scale;
        [self.max_by_rms, self.max_by_peak, self.rms, large, medium, small, self.large_by_peak, self.absolute]
    }

    const fn figures_mut(&mut self) -> [&mut f64; 8] {
        let [large, medium, small] = &mut self.class_by_scale;
        [
            &mut self.max_by_rms,
            &mut self.max_by_peak,
            &mut self.rms,
            large,
            medium,
            small,
            &mut self.large_by_peak,
            &mut self.absolute,
        ]
    }
}

/// What class errors are measured in, relative to the reference RMS.
const fn unit(class: Class) -> f64 {
    match class {
        Class::Large => 1.0,
        Class::Medium | Class::Small => class.edge(),
    }
}

/// The rule that an outcome rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Integers and booleans: equality.
    Exact,
    /// Infinities and NaN.
    NonFinite,
    /// Largest error against the yardstick.
    Max,
    /// RMS error against the yardstick.
    Rms,
    /// Largest error of a class against the yardstick.
    Class(Class),
    /// The cap on RMS(error) / RMS(reference).
    RelRms,
    /// The absolute bound that replaces the yardstick.
    Atol,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::NonFinite => f.write_str("nonfinite"),
            Self::Max => f.write_str("max"),
            Self::Rms => f.write_str("rms"),
            Self::Class(class) => write!(f, "class {}", class.name()),
            Self::RelRms => f.write_str("rel_rms"),
            Self::Atol => f.write_str("atol"),
        }
    }
}

/// The decision about one output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Whether every rule holds.
    pub pass: bool,
    /// Largest error / bound over the rules; infinite where the bound is 0 and the error is not.
    pub ratio: f64,
    /// The rule of `ratio`.
    pub rule: Rule,
    /// Its error.
    pub error: f64,
    /// Its bound.
    pub bound: f64,
    /// Element to look at first, where the rule has one.
    pub worst: Option<usize>,
}

impl Outcome {
    fn of(rule: Rule, error: f64, bound: f64, worst: Option<usize>) -> Self {
        // NaN on either side fails.
        let pass = error <= bound;
        let ratio = if error == 0.0 && pass {
            0.0
        } else if bound > 0.0 && error.is_finite() {
            error / bound
        } else {
            f64::INFINITY
        };
        Self { pass, ratio, rule, error, bound, worst }
    }

    fn worse(self, other: Self) -> Self {
        let takes = (!other.pass && self.pass) || (self.pass == other.pass && other.ratio > self.ratio);
        if takes { other } else { self }
    }
}

/// Judges a candidate against the reference.
#[must_use]
pub fn allowed(
    summary: &ErrorSummary,
    yardstick: &Yardstick,
    tolerance: &Tolerance,
    dtype: DType,
) -> Outcome {
    judge(summary, yardstick, tolerance, dtype, 0.0, Values::of(summary))
}

/// [`allowed`] for an output whose elements repeat fewer than [`CLASS_MINIMUM`] different values: rows that repeat have sums that
/// repeat. The RMS of what cancels in all of them says nothing of the errors, and the RMS of the errors is no average: where one
/// value is off, all are. So the largest error decides alone.
#[must_use]
pub fn allowed_repeating(
    summary: &ErrorSummary,
    yardstick: &Yardstick,
    tolerance: &Tolerance,
    dtype: DType,
) -> Outcome {
    judge(summary, yardstick, tolerance, dtype, 0.0, Values::Repeated)
}

/// Judges a candidate against its partner's output on the same content: the partner may itself be off by one
/// yardstick, so the multiples are `k + 1` and `rms_k + 1`, an absolute bound counts twice, and the cap on the
/// relative RMS grows by the yardstick's.
#[must_use]
pub fn allowed_partner(
    summary: &ErrorSummary,
    yardstick: &Yardstick,
    tolerance: &Tolerance,
    dtype: DType,
) -> Outcome {
    judge(summary, yardstick, tolerance, dtype, 1.0, Values::of(summary))
}

/// What the values of an output say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Many,
    /// Too few elements for their RMS to be a scale.
    Few,
    /// Many elements with few different values.
    Repeated,
}

impl Values {
    const fn of(summary: &ErrorSummary) -> Self {
        if summary.count < CLASS_MINIMUM { Self::Few } else { Self::Many }
    }
}

/// How much further than `k` the error of a class may go. Small outputs are mostly what is left when large terms cancel:
/// few elements, and errors with a heavier tail, since each is one accident of rounding. Two honest orders of summation
/// differ more there than over the whole.
const fn slack(class: Class) -> f64 {
    match class {
        Class::Large => 1.0,
        Class::Medium => 2.0,
        Class::Small => 4.0,
    }
}

fn judge(
    s: &ErrorSummary,
    y: &Yardstick,
    tolerance: &Tolerance,
    dtype: DType,
    partner: f64,
    values: Values,
) -> Outcome {
    if let Some(exact) = s.exact {
        return Outcome::of(Rule::Exact, exact.count as f64, 0.0, exact.first);
    }
    let n = &s.nonfinite;
    let (wrong, first) = if tolerance.nonfinite_matches {
        (n.unexpected + n.mismatched, n.first)
    } else {
        let first = [n.first, n.first_matched].into_iter().flatten().min();
        (n.unexpected + n.mismatched + n.matched, first)
    };
    let outcome = Outcome::of(Rule::NonFinite, wrong as f64, 0.0, first);
    if !outcome.pass {
        return outcome;
    }
    let least = tolerance.floor_abs + smallest_subnormal(dtype);
    let floor = |scale: f64| tolerance.floor_ulps * dtype.epsilon() * scale + least;
    let mut outcome = outcome;
    if let Some(cap) = tolerance.rel_rms_max {
        let bound = (cap + partner * y.rms) * s.ref_rms + least;
        outcome = outcome.worse(Outcome::of(Rule::RelRms, s.rms_err, bound, s.worst));
    }
    if let Some(atol) = tolerance.atol {
        let bound = (1.0 + partner) * atol + tolerance.floor_abs;
        return outcome.worse(Outcome::of(Rule::Atol, s.max_err, bound, s.worst));
    }
    let few = y.small_sample();
    let (k, rms_k) = ((tolerance.k + partner) * few, (tolerance.rms_k + partner) * few);
    // The RMS of a few values is now and then far below what their errors are relative to.
    let scale =
        if values != Values::Many && s.ref_rms > 0.0 { s.ref_rms.max(y.typical_rms) } else { s.ref_rms };
    // Where every reference element is 0, the absolute yardstick is all there is.
    let absolute = if s.ref_rms == 0.0 { y.absolute } else { 0.0 };
    let measure = (y.max_by_rms * scale).max(y.max_by_peak * s.ref_max).max(absolute);
    outcome = outcome.worse(Outcome::of(Rule::Max, s.max_err, k * measure + floor(s.ref_max), s.worst));
    if values != Values::Repeated {
        let bound = rms_k * (y.rms * scale).max(absolute) + floor(s.ref_rms);
        outcome = outcome.worse(Outcome::of(Rule::Rms, s.rms_err, bound, s.worst));
    }
    for class in Class::ALL {
        let own = &s.classes[class as usize];
        if own.count == 0 {
            continue;
        }
        let mut measure = y.class_by_scale[class as usize] * unit(class) * scale;
        if class == Class::Large {
            measure = measure.max(y.large_by_peak * s.ref_max);
        }
        let bound = slack(class) * k * measure.max(absolute) + floor(own.scale);
        outcome = outcome.worse(Outcome::of(Rule::Class(class), own.max_err, bound, own.worst));
    }
    outcome
}
