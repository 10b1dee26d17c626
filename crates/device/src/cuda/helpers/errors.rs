//! Outputs compared whole.

use super::{Helpers, THREADS, words_at};
use crate::cuda::error::Result;
use crate::cuda::memory::{self, Address};
use crate::cuda::module::Args;
use crate::cuda::stream::Stream;
use kernelseek_core::dtype::DType;
use kernelseek_numerics::metrics::{Asked, ErrorSummary};
use kernelseek_numerics::partials::{self, ERROR_WORDS, ErrorPart, SCALE_WORDS, ScalePart};

/// Two dense outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The reference's elements, aligned to their size.
    pub reference: Address,
    /// Their type: that of the candidate, or `f64` or `f32`.
    pub reference_dtype: DType,
    /// The candidate's elements.
    pub candidate: Address,
    /// Their type.
    pub dtype: DType,
    /// Elements of each.
    pub count: usize,
    /// How much of the answer the reference was asked for.
    pub asked: Asked,
}

impl Helpers {
    /// Compares outputs whole, as `metrics::compare_asked` and `metrics::compare_reference` do. Root-mean-squares are
    /// summed in another order than there, everything else is equal.
    ///
    /// # Errors
    /// What the driver says.
    pub fn compare(&self, pairs: &[Comparison], stream: &Stream) -> Result<Vec<ErrorSummary>> {
        let plans: Vec<(usize, u32)> = pairs
            .iter()
            .scan(0, |next, pair| {
                let blocks = if pair.dtype.is_float() { self.compare_blocks(pair) } else { 0 };
                let at = *next;
                *next += (blocks as usize * PART_WORDS).max(2);
                Some((at, blocks))
            })
            .collect();
        let total = plans.last().map_or(0, |&(at, blocks)| at + (blocks as usize * PART_WORDS).max(2));
        let base = self.scratch(total * 8)?;
        for (pair, &(at, blocks)) in pairs.iter().zip(&plans) {
            let results = base + at as u64 * 8;
            if pair.dtype.is_float() {
                self.compare_floats(pair, blocks, results, stream)?;
            } else {
                self.compare_exact(pair, results, stream)?;
            }
        }
        let words = words_at(base, total, stream)?;
        Ok(pairs
            .iter()
            .zip(&plans)
            .map(|(pair, &(at, blocks))| summary(pair, &words[at..], blocks))
            .collect())
    }

    /// As many blocks as there are multiprocessors, four times over: each ends with a reduction.
    fn compare_blocks(&self, pair: &Comparison) -> u32 {
        let per = 16 / pair.dtype.size() as u64;
        self.blocks((pair.count as u64).div_ceil(per)).min(4 * self.multiprocessors)
    }

    fn compare_floats(
        &self,
        pair: &Comparison,
        blocks: u32,
        results: Address,
        stream: &Stream,
    ) -> Result<()> {
        let scales = results;
        let again = scales + u64::from(blocks) * 8 * SCALE_WORDS as u64;
        let errors = again + u64::from(blocks) * 8 * SCALE_WORDS as u64;
        let reference = || {
            Args::new()
                .u64(pair.reference)
                .u32(pair.reference_dtype as u32)
                .u64(pair.count as u64)
                .u64(scales)
        };
        self.kernels.reference_scale.launch(blocks, THREADS, stream, reference())?;
        // Only doubles have squares beyond the range of doubles.
        let wide = pair.reference_dtype == DType::F64;
        if wide {
            self.kernels.reference_scale_again.launch(blocks, THREADS, stream, reference().u64(again))?;
        }
        let args = Args::new()
            .u64(pair.reference)
            .u32(pair.reference_dtype as u32)
            .u64(pair.candidate)
            .u32(pair.dtype as u32)
            .u64(pair.count as u64)
            .u64(if wide { again } else { scales })
            .u32(blocks)
            .u64(errors)
            .u32(u32::from(pair.asked == Asked::Part));
        self.kernels.error_partials.launch(blocks, THREADS, stream, args)
    }

    fn compare_exact(&self, pair: &Comparison, results: Address, stream: &Stream) -> Result<()> {
        memory::set(results, 0, 8, stream)?;
        memory::set(results + 8, 0xFF, 8, stream)?;
        let size = pair.dtype.size();
        if pair.reference_dtype == pair.dtype {
            let bytes = (pair.count * size) as u64;
            let args =
                Args::new().u64(pair.reference).u64(pair.candidate).u64(bytes).u32(size as u32).u64(results);
            return self.kernels.differs.launch(self.blocks(bytes.div_ceil(16)), THREADS, stream, args);
        }
        let args = Args::new()
            .u64(pair.reference)
            .u32(pair.reference_dtype as u32)
            .u64(pair.candidate)
            .u32(pair.dtype as u32)
            .u64(pair.count as u64)
            .u64(results);
        self.kernels.mismatches.launch(self.blocks(pair.count as u64), THREADS, stream, args)
    }
}

/// Words of one block's results of a comparison: two scales and the errors.
const PART_WORDS: usize = 2 * SCALE_WORDS + ERROR_WORDS;

fn summary(pair: &Comparison, words: &[u64], blocks: u32) -> ErrorSummary {
    if !pair.dtype.is_float() {
        return partials::exact(pair.count, words[0], words[1]);
    }
    let blocks = blocks as usize;
    let (scales, rest) = words.split_at(blocks * SCALE_WORDS);
    let (again, rest) = rest.split_at(blocks * SCALE_WORDS);
    let scales = if pair.reference_dtype == DType::F64 { again } else { scales };
    let scales: Vec<ScalePart> =
        scales.as_chunks().0.iter().map(|words| ScalePart::from_words(*words)).collect();
    let errors: Vec<ErrorPart> = rest[..blocks * ERROR_WORDS]
        .as_chunks()
        .0
        .iter()
        .map(|words| ErrorPart::from_words(*words))
        .collect();
    partials::combine(pair.count, pair.asked, &scales, &errors)
}
