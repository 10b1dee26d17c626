//! Errors gathered in parts, as the blocks of a GPU give them, put together to what [`crate::metrics`] says of the
//! whole.

use crate::metrics::{Asked, ClassError, ErrorSummary, Mismatch, NonFinite};

/// Words of one [`ScalePart`].
pub const SCALE_WORDS: usize = 3;
/// Words of one [`ErrorPart`].
pub const ERROR_WORDS: usize = 20;

/// What a part of the reference says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ScalePart {
    /// Finite elements.
    pub finite: u64,
    /// Sum of their squares, in the unit of [`unit_of`].
    pub squares: f64,
    /// Largest magnitude.
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sum {
    count: u64,
    max: f64,
    worst: u64,
    squares: f64,
    scale: f64,
}

/// Errors of a part of the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorPart {
    classes: [Sum; 3],
    unexpected: u64,
    mismatched: u64,
    matched: u64,
    first: u64,
    first_matched: u64,
}

const NONE: u64 = u64::MAX;

fn index(word: u64) -> Option<usize> {
    (word != NONE).then_some(word as usize)
}

impl ScalePart {
    /// From the words of `ks_scale`.
    #[must_use]
    pub const fn from_words(words: [u64; SCALE_WORDS]) -> Self {
        Self { finite: words[0], squares: f64::from_bits(words[1]), max: f64::from_bits(words[2]) }
    }
}

impl ErrorPart {
    /// From the words of `ks_errors`.
    #[must_use]
    pub fn from_words(words: [u64; ERROR_WORDS]) -> Self {
        let class = |k: usize| Sum {
            count: words[5 * k],
            max: f64::from_bits(words[5 * k + 1]),
            worst: words[5 * k + 2],
            squares: f64::from_bits(words[5 * k + 3]),
            scale: f64::from_bits(words[5 * k + 4]),
        };
        Self {
            classes: [class(0), class(1), class(2)],
            unexpected: words[15],
            mismatched: words[16],
            matched: words[17],
            first: words[18],
            first_matched: words[19],
        }
    }
}

/// The unit that squares are taken in when the reference's largest magnitude is `max`: 1 unless they would leave the
/// range.
#[must_use]
pub fn unit_of(max: f64) -> f64 {
    if max > 0.0 && !(1e-120..1e120).contains(&max) { max } else { 1.0 }
}

/// Puts the parts of `count` elements together. `asked` as for [`crate::metrics::compare_asked`].
#[must_use]
pub fn combine(count: usize, asked: Asked, scales: &[ScalePart], errors: &[ErrorPart]) -> ErrorSummary {
    let mut scale = ScalePart::default();
    for part in scales {
        scale.finite += part.finite;
        scale.squares += part.squares;
        scale.max = scale.max.max(part.max);
    }
    let unit = unit_of(scale.max);
    let root_mean = |squares: f64, count: u64| {
        if count == 0 { 0.0 } else { (squares / count as f64).sqrt() * unit }
    };
    let mut classes = [Sum { count: 0, max: 0.0, worst: NONE, squares: 0.0, scale: 0.0 }; 3];
    let mut nonfinite = NonFinite::default();
    let (mut first, mut first_matched) = (NONE, NONE);
    for part in errors {
        for (sum, of) in classes.iter_mut().zip(&part.classes) {
            sum.count += of.count;
            sum.squares += of.squares;
            sum.scale = sum.scale.max(of.scale);
            if of.max > sum.max || (of.max == sum.max && of.worst < sum.worst) {
                (sum.max, sum.worst) = (of.max, of.worst);
            }
        }
        nonfinite.unexpected += part.unexpected as usize;
        nonfinite.mismatched += part.mismatched as usize;
        nonfinite.matched += part.matched as usize;
        first = first.min(part.first);
        first_matched = first_matched.min(part.first_matched);
    }
    nonfinite.first = index(first);
    nonfinite.first_matched = index(first_matched);
    let mut worst = (0.0, NONE);
    for class in &classes {
        if class.max > worst.0 {
            worst = (class.max, class.worst);
        }
    }
    ErrorSummary {
        count: asked.count(count, classes.iter().map(|c| c.count as usize).sum(), &nonfinite),
        max_err: worst.0,
        worst: index(worst.1),
        rms_err: root_mean(classes.iter().map(|c| c.squares).sum(), scale.finite),
        ref_rms: root_mean(scale.squares, scale.finite),
        ref_max: scale.max,
        classes: classes.map(|c| ClassError {
            count: c.count as usize,
            max_err: c.max,
            rms_err: root_mean(c.squares, c.count),
            scale: c.scale,
            worst: index(c.worst),
        }),
        nonfinite,
        exact: None,
    }
}

/// The summary of an integer or boolean output: how many of `count` elements differ, and the first.
#[must_use]
pub fn exact(count: usize, differing: u64, first: u64) -> ErrorSummary {
    let exact = Mismatch { count: differing as usize, first: index(first) };
    ErrorSummary { count, exact: Some(exact), ..ErrorSummary::default() }
}
