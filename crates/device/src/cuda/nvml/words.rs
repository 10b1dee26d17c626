//! Why clocks are not higher, in words.

/// The bits of NVML's clock event reasons.
const REASONS: [(u64, &str); 9] = [
    (0x001, "idle"),
    (0x002, "clocks set by a user"),
    (0x004, "power limit"),
    (0x008, "hardware slowdown"),
    (0x010, "kept in step with another GPU"),
    (0x020, "too warm"),
    (0x040, "far too warm, clocks halved"),
    (0x080, "power brake, clocks halved"),
    (0x100, "clocks of the display"),
];

/// One phrase a reason. Bits that are not known are named by their value.
#[must_use]
pub fn throttle_words(bits: u64) -> Vec<String> {
    let mut words: Vec<String> =
        REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| (*word).to_owned()).collect();
    let rest = REASONS.iter().fold(bits, |rest, (bit, _)| rest & !bit);
    if rest != 0 {
        words.push(format!("reason {rest:#x}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::throttle_words;

    #[test]
    fn every_bit_has_words() {
        assert!(throttle_words(0).is_empty());
        assert_eq!(throttle_words(0x1), ["idle"]);
        assert_eq!(throttle_words(0x4 | 0x20), ["power limit", "too warm"]);
        assert_eq!(throttle_words(0x8000_0004), ["power limit", "reason 0x80000000"]);
        let all = throttle_words(0x1ff);
        assert_eq!(all.len(), 9);
        for (bit, word) in all.iter().enumerate() {
            assert_eq!(throttle_words(1 << bit), [word.as_str()]);
        }
    }
}
