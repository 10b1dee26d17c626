//! Secret randomness of an evaluation: everything that a candidate must not predict comes from here.

/// A stream of numbers derived from the evaluation's secret and a label.
#[derive(Debug)]
pub struct Dice {
    stream: blake3::OutputReader,
}

impl Dice {
    /// The stream for `label`.
    #[must_use]
    pub fn new(secret: &[u8; 32], label: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(label.as_bytes());
        Self { stream: hasher.finalize_xof() }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.stream.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number from `0..n` (0 when `n` is 0). The bias of one part in 2^64 / n matters to nobody here.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// `count` different numbers from `0..n`, in random order.
    pub fn distinct(&mut self, count: usize, n: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n as u32).collect();
        self.shuffle(&mut all);
        all.truncate(count);
        all
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i + 1);
            items.swap(i, j);
        }
    }
}

/// A secret of its own for one purpose.
#[must_use]
pub fn key(secret: &[u8; 32], label: &str) -> [u8; 32] {
    *blake3::keyed_hash(secret, label.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_independent() {
        let roll = |secret: u8, label: &str| {
            let mut dice = Dice::new(&[secret; 32], label);
            (0..4).map(|_| dice.bits()).collect::<Vec<_>>()
        };
        assert_eq!(roll(1, "a"), roll(1, "a"));
        assert_ne!(roll(1, "a"), roll(1, "b"));
        assert_ne!(roll(1, "a"), roll(2, "a"));
    }

    #[test]
    fn draws_are_distinct_and_in_range() {
        let mut dice = Dice::new(&[3; 32], "t");
        for _ in 0..200 {
            let mut drawn = dice.distinct(5, 9);
            assert!(drawn.iter().all(|&x| x < 9));
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 5);
            assert!(dice.below(3) < 3);
        }
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.distinct(7, 2).len(), 2);
    }
}
