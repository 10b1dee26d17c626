//! Peaks of this machine: the arithmetic and the memory traffic that one core can reach, measured.
//!
//! They make the floor under which no honest time can lie, so they must not come out too low: each is the best of
//! five measurements times 1.1.

use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Margin on the best measurement.
const MARGIN: f64 = 1.1;
/// Measurements of which the best counts.
const ROUNDS: usize = 5;

/// Peaks of one core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Single-precision operations per second (a fused multiply-add counts two).
    pub f32_flops: f64,
    /// Bytes per second read from memory, caches cold.
    pub memory_bytes: f64,
    /// Bytes per second read from the first-level cache; on a GPU, from the second-level one.
    pub cache_bytes: f64,
    /// How many times the single-precision rate tensors of 1, 2 and 4 bytes an element may be computed at.
    #[serde(default = "vector_units")]
    pub narrow: [f64; 3],
}

/// Units that take narrow types by the vector: the floor must stay below anything that they could reach.
const fn vector_units() -> [f64; 3] {
    [8.0, 4.0, 1.0]
}

impl Peaks {
    /// Component by component the higher.
    #[must_use]
    pub const fn higher(&self, other: &Self) -> Self {
        Self {
            f32_flops: self.f32_flops.max(other.f32_flops),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            cache_bytes: self.cache_bytes.max(other.cache_bytes),
            narrow: [
                self.narrow[0].max(other.narrow[0]),
                self.narrow[1].max(other.narrow[1]),
                self.narrow[2].max(other.narrow[2]),
            ],
        }
    }

    /// Measures the peaks; takes about a third of a second.
    #[must_use]
    pub fn measure() -> Self {
        let best = |f: &mut dyn FnMut() -> f64| (0..ROUNDS).map(|_| f()).fold(0.0, f64::max) * MARGIN;
        // Short bursts and long sweeps: what a kernel moves in one call may be either.
        let buffer = vec![1u64; crate::cache::last_level_bytes().max(8 << 20) / 2];
        let bursts: Vec<&[u64]> =
            [1 << 14, 1 << 16, 1 << 18, buffer.len()].iter().filter_map(|&n| buffer.get(..n)).collect();
        let small = vec![1u64; 2048];
        Self {
            f32_flops: best(&mut measure_flops),
            memory_bytes: best(&mut || {
                bursts.iter().fold(0.0, |best, burst| {
                    crate::cache::flush_words(burst);
                    read_rate(burst, 1).max(best)
                })
            }),
            cache_bytes: best(&mut || read_rate(&small, 2000)),
            narrow: vector_units(),
        }
    }
}

/// Bytes per second of summing `buffer` `rounds` times.
fn read_rate(buffer: &[u64], rounds: usize) -> f64 {
    let start = Instant::now();
    let mut total = 0u64;
    for _ in 0..rounds {
        let mut lanes = [0u64; 64];
        for chunk in std::hint::black_box(buffer).chunks_exact(64) {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = lane.wrapping_add(x);
            }
        }
        total = total.wrapping_add(lanes.iter().copied().fold(0, u64::wrapping_add));
    }
    std::hint::black_box(total);
    (size_of_val(buffer) * rounds) as f64 / start.elapsed().as_secs_f64()
}

/// Iterations of the multiply-add loop.
const STEPS: usize = 400_000;

fn measure_flops() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return x86::rate_avx512();
        }
        if std::arch::is_x86_feature_detected!("fma") {
            return x86::rate_fma();
        }
    }
    portable_rate()
}

/// Whatever the compiler makes of independent multiply-adds for the baseline target; on targets without a measured
/// vector loop above, four times it stands for the vector units that the loop may not use.
fn portable_rate() -> f64 {
    let mut lanes = [1.0f32; 64];
    let (a, b) = (std::hint::black_box(0.999_999_f32), std::hint::black_box(1e-7f32));
    let start = Instant::now();
    for _ in 0..STEPS / 4 {
        for lane in &mut lanes {
            *lane = *lane * a + b;
        }
    }
    std::hint::black_box(lanes);
    4.0 * (2 * 64 * (STEPS / 4)) as f64 / start.elapsed().as_secs_f64()
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions behind feature detection")]
mod x86 {
    use super::STEPS;
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};
    use std::time::Instant;

    /// Independent accumulators: enough to cover the latency of two units.
    const LANES: usize = 12;

    pub(super) fn rate_avx512() -> f64 {
        #[target_feature(enable = "avx512f")]
        fn run() -> f64 {
            let (a, b) = (_mm512_set1_ps(0.999_999), _mm512_set1_ps(1e-7));
            let mut x = [_mm512_set1_ps(1.0); LANES];
            let start = Instant::now();
            for _ in 0..STEPS {
                for lane in &mut x {
                    *lane = _mm512_fmadd_ps(*lane, a, b);
                }
            }
            std::hint::black_box(x);
            (2 * 16 * LANES * STEPS) as f64 / start.elapsed().as_secs_f64()
        }
        // SAFETY: the caller has detected the feature.
        unsafe { run() }
    }

    pub(super) fn rate_fma() -> f64 {
        #[target_feature(enable = "avx,fma")]
        fn run() -> f64 {
            let (a, b) = (_mm256_set1_ps(0.999_999), _mm256_set1_ps(1e-7));
            let mut x = [_mm256_set1_ps(1.0); LANES];
            let start = Instant::now();
            for _ in 0..STEPS {
                for lane in &mut x {
                    *lane = _mm256_fmadd_ps(*lane, a, b);
                }
            }
            std::hint::black_box(x);
            (2 * 8 * LANES * STEPS) as f64 / start.elapsed().as_secs_f64()
        }
        // SAFETY: the caller has detected the features.
        unsafe { run() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_positive_and_ordered() {
        let peaks = Peaks::measure();
        assert!(peaks.f32_flops > 1e8, "{peaks:?}");
        assert!(peaks.memory_bytes > 1e8, "{peaks:?}");
        assert!(peaks.cache_bytes > 1e8, "{peaks:?}");
    }
}
