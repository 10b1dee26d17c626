//! The generator that contents are drawn from.
//!
//! Its name is part of the format: `ks-pcg64-1` is PCG64 (XSL-RR 128/64), seeded per tensor as
//! [`Pcg64::for_tensor`] says. Inputs of a recorded verdict must be the same in ten years, so neither the
//! algorithm nor the seeding changes under this name.

/// Name of the stream in records.
pub const STREAM: &str = "ks-pcg64-1";

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// PCG64: a 128-bit linear congruential state with a permuted 64-bit output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
}

/// What a stream of one tensor is for; different purposes never share draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The values themselves.
    Values = 0,
    /// Which variant of a stress family, and where.
    Stress = 1,
    /// Changing a subset of elements in place.
    Mutation = 2,
    /// Resampling.
    Bootstrap = 3,
}

/// A bijective mix of 64 bits (the finaliser of SplitMix64).
#[must_use]
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Pcg64 {
    /// The generator with this state and stream.
    #[must_use]
    pub const fn new(state: u128, stream: u128) -> Self {
        let increment = (stream << 1) | 1;
        let mut rng = Self { state: state.wrapping_add(increment), increment };
        rng.step();
        rng
    }

    /// The stream of one tensor (`index` in the case) of the content with this seed.
    #[must_use]
    pub const fn for_tensor(seed: u64, index: usize, purpose: Purpose) -> Self {
        let high = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
        let low = mix(high ^ mix((index as u64) << 8 | purpose as u64));
        Self::new((high as u128) << 64 | low as u128, (index as u128) << 8 | purpose as u128)
    }

    #[inline]
    const fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.step();
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    /// A number below `bound` (0 when `bound` is 0), by the high half of a product: the bias is below
    /// `bound / 2⁶⁴`.
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniformly random order of `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn is_the_published_generator() {
        for (state, stream) in [(0, 0), (1, 1), (0xdead_beef_u128 << 70 | 5, u128::MAX >> 2)] {
            let mut ours = Pcg64::new(state, stream);
            let mut theirs = rand_pcg::Pcg64::new(state, stream);
            for _ in 0..1000 {
                assert_eq!(ours.next_u64(), theirs.next_u64());
            }
        }
    }

    #[test]
    fn tensors_and_purposes_have_their_own_streams() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            for index in 0..10 {
                for purpose in [Purpose::Values, Purpose::Stress, Purpose::Mutation] {
                    assert!(seen.insert(Pcg64::for_tensor(seed, index, purpose).next_u64()));
                }
            }
        }
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Pcg64::new(3, 4);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[rng.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (850..1150).contains(&c)), "{counts:?}");
        assert_eq!(rng.below(0), 0);
    }
}
