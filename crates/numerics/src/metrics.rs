//! Errors of one output against a reference (or a partner's output), by maximum, RMS and element class.
//!
//! Element classes split the finite reference values by magnitude relative to their own RMS, because an error
//! that drowns in the large elements may be all there is of the small ones.

use crate::codec::{self, CodecError};
use kernelseek_core::dtype::DType;

/// Magnitude classes of reference elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// At least 0.1 × RMS.
    Large = 0,
    /// From 0.001 × RMS up to that.
    Medium = 1,
    /// Below 0.001 × RMS, exact zeros included.
    Small = 2,
}

impl Class {
    /// All classes, as [`ErrorSummary::classes`] is indexed.
    pub const ALL: [Self; 3] = [Self::Large, Self::Medium, Self::Small];

    /// Upper edge of the class relative to the reference RMS; that of `Large` is infinite.
    #[must_use]
    pub const fn edge(self) -> f64 {
        match self {
            Self::Large => f64::INFINITY,
            Self::Medium => 0.1,
            Self::Small => 1e-3,
        }
    }

    /// The word that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Medium => "medium",
            Self::Small => "small",
        }
    }
}

/// Errors of the elements of one class.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassError {
    /// Elements.
    pub count: usize,
    /// Largest absolute error; infinite for a candidate that is not finite.
    pub max_err: f64,
    /// Root of the mean squared error.
    pub rms_err: f64,
    /// Largest reference magnitude in the class.
    pub scale: f64,
    /// Element with the largest error; `None` when all errors are 0.
    pub worst: Option<usize>,
}

/// Values that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NonFinite {
    /// Candidate not finite where the reference is.
    pub unexpected: usize,
    /// Reference not finite and the candidate finite, or another infinity or NaN for infinity.
    pub mismatched: usize,
    /// Both the same infinity, or both NaN.
    pub matched: usize,
    /// First unexpected or mismatched element.
    pub first: Option<usize>,
    /// First matched element.
    pub first_matched: Option<usize>,
}

/// Differing elements of an integer or boolean output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mismatch {
    /// How many.
    pub count: usize,
    /// The first.
    pub first: Option<usize>,
}

/// What a comparison saw. Integer and boolean outputs have `exact`, float outputs the rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorSummary {
    /// Elements compared.
    pub count: usize,
    /// Largest absolute error where the reference is finite; infinite for a candidate that is not.
    pub max_err: f64,
    /// Element of `max_err`; `None` when all errors are 0.
    pub worst: Option<usize>,
    /// Root of the mean squared error over finite reference elements.
    pub rms_err: f64,
    /// RMS of the finite reference elements.
    pub ref_rms: f64,
    /// Largest magnitude of the finite reference elements.
    pub ref_max: f64,
    /// By [`Class`].
    pub classes: [ClassError; 3],
    /// Infinities and NaN.
    pub nonfinite: NonFinite,
    /// For integers and booleans.
    pub exact: Option<Mismatch>,
}

/// How much of its answer a reference was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Asked {
    /// All of it.
    #[default]
    Whole,
    /// A part: NaN in the reference is what it was not asked for, and is not compared.
    Part,
}

impl Asked {
    /// Elements compared, of `all`: those with an error, in `classes`, and those that are not finite.
    pub(crate) const fn count(self, all: usize, classes: usize, nonfinite: &NonFinite) -> usize {
        match self {
            Self::Whole => all,
            Self::Part => classes + nonfinite.matched + nonfinite.mismatched,
        }
    }
}

/// Why two outputs cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum MetricsError {
    /// Different element counts.
    #[error("{candidate} elements against {reference}")]
    Length {
        /// Reference elements.
        reference: usize,
        /// Candidate elements.
        candidate: usize,
    },
    /// Bytes that are no elements.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

const fn same_length(reference: usize, candidate: usize) -> Result<(), MetricsError> {
    if reference == candidate { Ok(()) } else { Err(MetricsError::Length { reference, candidate }) }
}

/// Compares values that were decoded already. For integer and boolean outputs, `reference` and `candidate`
/// must be the same number (beyond 2⁵³ use [`compare_bytes`], which is exact).
///
/// # Errors
/// The lengths differ.
pub fn compare(dtype: DType, reference: &[f64], candidate: &[f64]) -> Result<ErrorSummary, MetricsError> {
    same_length(reference.len(), candidate.len())?;
    if dtype.is_float() {
        return Ok(summarise(&(reference, candidate), Asked::Whole));
    }
    Ok(mismatches(reference.len(), |i| reference[i] == candidate[i]))
}

/// [`compare`] without decoding first, for `f32` outputs.
///
/// # Errors
/// The lengths differ.
pub fn compare_f32(reference: &[f32], candidate: &[f32]) -> Result<ErrorSummary, MetricsError> {
    same_length(reference.len(), candidate.len())?;
    Ok(summarise(&(reference, candidate), Asked::Whole))
}

/// Compares two dense outputs of one element type, as they lie in memory; what every timed output goes
/// through. Integers and booleans are compared byte by byte.
///
/// # Errors
/// The lengths differ or are no whole number of elements.
pub fn compare_bytes(dtype: DType, reference: &[u8], candidate: &[u8]) -> Result<ErrorSummary, MetricsError> {
    compare_asked(dtype, reference, candidate, Asked::Whole)
}

/// [`compare_bytes`], with a reference that may have been asked for a part of a float output.
///
/// # Errors
/// As there.
pub fn compare_asked(
    dtype: DType,
    reference: &[u8],
    candidate: &[u8],
    asked: Asked,
) -> Result<ErrorSummary, MetricsError> {
    let size = dtype.size();
    whole_elements(dtype, reference)?;
    whole_elements(dtype, candidate)?;
    let count = reference.len() / size;
    same_length(count, candidate.len() / size)?;
    match dtype {
        _ if dtype.is_float() => Ok(summarise(&Encoded(dtype, reference, candidate), asked)),
        _ if reference == candidate => Ok(mismatches(0, |_| true).with_count(count)),
        _ => Ok(mismatches(count, |i| {
            reference[i * size..(i + 1) * size] == candidate[i * size..(i + 1) * size]
        })),
    }
}

/// Compares a dense output with reference values of higher precision (`f64`). Integers and booleans must be
/// the reference exactly.
///
/// # Errors
/// The lengths differ or `candidate` is no whole number of elements.
pub fn compare_reference(
    dtype: DType,
    reference: &[f64],
    candidate: &[u8],
) -> Result<ErrorSummary, MetricsError> {
    whole_elements(dtype, candidate)?;
    same_length(reference.len(), candidate.len() / dtype.size())?;
    if dtype.is_float() {
        return Ok(summarise(&Against(reference, Encoded(dtype, candidate, candidate)), Asked::Whole));
    }
    Ok(mismatches(reference.len(), |i| codec::read(dtype, candidate, i) == Some(reference[i])))
}

fn whole_elements(dtype: DType, bytes: &[u8]) -> Result<(), MetricsError> {
    if bytes.len().is_multiple_of(dtype.size()) {
        return Ok(());
    }
    Err(CodecError::Length { bytes: bytes.len(), expected: codec::Expected::Whole, dtype }.into())
}

impl ErrorSummary {
    const fn with_count(mut self, count: usize) -> Self {
        self.count = count;
        self
    }
}

fn mismatches(count: usize, equal: impl Fn(usize) -> bool) -> ErrorSummary {
    let mut exact = Mismatch::default();
    for i in 0..count {
        if !equal(i) {
            exact.count += 1;
            exact.first = exact.first.or(Some(i));
        }
    }
    ErrorSummary { count, exact: Some(exact), ..ErrorSummary::default() }
}

/// Elements that are converted at a time.
const CHUNK: usize = 1024;

/// Where pairs of values come from.
trait Pairs {
    fn count(&self) -> usize;
    /// Reference values from `start` on, as many as `out` holds.
    fn reference(&self, start: usize, out: &mut [f64]);
    /// Candidate values, likewise.
    fn candidate(&self, start: usize, out: &mut [f64]);
}

impl Pairs for (&[f64], &[f64]) {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn reference(&self, start: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }
    fn candidate(&self, start: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.1[start..start + out.len()]);
    }
}

impl Pairs for (&[f32], &[f32]) {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn reference(&self, start: usize, out: &mut [f64]) {
        out.iter_mut().zip(&self.0[start..]).for_each(|(o, &v)| *o = v.into());
    }
    fn candidate(&self, start: usize, out: &mut [f64]) {
        out.iter_mut().zip(&self.1[start..]).for_each(|(o, &v)| *o = v.into());
    }
}

/// Whole elements as they lie in memory, the same number on both sides.
struct Encoded<'a>(DType, &'a [u8], &'a [u8]);

impl Encoded<'_> {
    fn decode(&self, bytes: &[u8], start: usize, out: &mut [f64]) {
        let size = self.0.size();
        codec::for_each(self.0, &bytes[start * size..(start + out.len()) * size], |i, v| out[i] = v);
    }
}

impl Pairs for Encoded<'_> {
    fn count(&self) -> usize {
        self.1.len() / self.0.size()
    }
    fn reference(&self, start: usize, out: &mut [f64]) {
        self.decode(self.1, start, out);
    }
    fn candidate(&self, start: usize, out: &mut [f64]) {
        self.decode(self.2, start, out);
    }
}

/// References of higher precision against elements as they lie in memory.
struct Against<'a>(&'a [f64], Encoded<'a>);

impl Pairs for Against<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn reference(&self, start: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.0[start..start + out.len()]);
    }
    fn candidate(&self, start: usize, out: &mut [f64]) {
        self.1.candidate(start, out);
    }
}

#[derive(Clone, Copy, Default)]
struct Sum {
    count: usize,
    max: f64,
    worst: Option<usize>,
    squares: f64,
    scale: f64,
}

/// What the reference alone says.
struct Scale {
    finite: usize,
    rms: f64,
    max: f64,
    /// Squares are taken in this unit, because those of very large or very small `f64` leave the range.
    unit: f64,
}

impl Scale {
    fn of(pairs: &impl Pairs, unit: f64) -> Self {
        let mut values = [0.0; CHUNK];
        let (mut finite, mut squares, mut max) = (0usize, 0.0, 0.0f64);
        let mut start = 0;
        while start < pairs.count() {
            let values = &mut values[..CHUNK.min(pairs.count() - start)];
            pairs.reference(start, values);
            for &r in values.iter() {
                let kept = if r.is_finite() { r } else { 0.0 };
                finite += usize::from(r.is_finite());
                squares += (kept / unit) * (kept / unit);
                max = max.max(kept.abs());
            }
            start += values.len();
        }
        if unit == 1.0 && max > 0.0 && !(1e-120..1e120).contains(&max) {
            return Self::of(pairs, max);
        }
        let mut scale = Self { finite, rms: 0.0, max, unit };
        scale.rms = scale.root_mean(squares, finite);
        scale
    }

    fn root_mean(&self, squares: f64, count: usize) -> f64 {
        if count == 0 { 0.0 } else { (squares / count as f64).sqrt() * self.unit }
    }
}

fn summarise(pairs: &impl Pairs, asked: Asked) -> ErrorSummary {
    let scale = Scale::of(pairs, 1.0);
    let (large, small) = (Class::Medium.edge() * scale.rms, Class::Small.edge() * scale.rms);
    let per_unit = 1.0 / scale.unit;
    let mut sums = [Sum::default(); 3];
    let mut nonfinite = NonFinite::default();
    let (mut references, mut candidates) = ([0.0; CHUNK], [0.0; CHUNK]);
    let mut start = 0;
    while start < pairs.count() {
        let length = CHUNK.min(pairs.count() - start);
        pairs.reference(start, &mut references[..length]);
        pairs.candidate(start, &mut candidates[..length]);
        for (i, (&r, &c)) in references.iter().zip(&candidates).take(length).enumerate() {
            let mut error = (c - r).abs();
            // Not finite: one side is not, or the difference leaves the range.
            if !error.is_finite()
                && (asked == Asked::Part && r.is_nan() || !nonfinite.take(r, c, start + i, &mut error))
            {
                continue;
            }
            let magnitude = r.abs();
            let zero = magnitude == 0.0;
            let class = usize::from(zero | (magnitude < large)) + usize::from(zero | (magnitude < small));
            let sum = &mut sums[class];
            sum.count += 1;
            sum.scale = sum.scale.max(magnitude);
            if error > sum.max {
                sum.max = error;
                sum.worst = Some(start + i);
            }
            sum.squares += (error * per_unit) * (error * per_unit);
        }
        start += length;
    }
    let worst = sums.iter().fold(Sum::default(), |w, s| if s.max > w.max { *s } else { w });
    ErrorSummary {
        count: asked.count(pairs.count(), sums.iter().map(|s| s.count).sum(), &nonfinite),
        max_err: worst.max,
        worst: worst.worst,
        rms_err: scale.root_mean(sums.iter().map(|s| s.squares).sum(), scale.finite),
        ref_rms: scale.rms,
        ref_max: scale.max,
        classes: sums.map(|s| ClassError {
            count: s.count,
            max_err: s.max,
            rms_err: scale.root_mean(s.squares, s.count),
            scale: s.scale,
            worst: s.worst,
        }),
        nonfinite,
        exact: None,
    }
}

impl NonFinite {
    /// Counts a pair of which a side, or the difference, is not finite. Whether it also has an error: one that
    /// is infinite, because a NaN would compare as no error at all.
    #[cold]
    fn take(&mut self, r: f64, c: f64, index: usize, error: &mut f64) -> bool {
        *error = f64::INFINITY;
        if r.is_finite() {
            if !c.is_finite() {
                self.unexpected += 1;
                self.first = self.first.or(Some(index));
            }
            return true;
        }
        if r == c || (r.is_nan() && c.is_nan()) {
            self.matched += 1;
            self.first_matched = self.first_matched.or(Some(index));
        } else {
            self.mismatched += 1;
            self.first = self.first.or(Some(index));
        }
        false
    }
}
