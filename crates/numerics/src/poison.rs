//! Poison for outputs, canaries for redzones.
//!
//! Poison is what an output holds before a call: NaN where the type has NaN, an improbable number where it has
//! none, never the same at two positions or under two seeds, so that copying a neighbour or an older poisoned
//! buffer does not pass for an answer.

use crate::rng::mix;
use kernelseek_core::dtype::DType;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The poison of element `index`, in the low bytes.
#[inline]
const fn pattern(dtype: DType, seed: u64, index: usize) -> u64 {
    let random = mix(seed ^ (index as u64).wrapping_add(1).wrapping_mul(STEP));
    match dtype {
        // Quiet NaN with a random sign and payload; the lowest payload bit keeps it from being the default NaN.
        DType::F64 => random | 0x7FF8_0000_0000_0001,
        DType::F32 => random | 0x7FC0_0001,
        DType::F16 => random | 0x7E01,
        DType::Bf16 => random | 0x7FC1,
        // E4M3 has one NaN per sign, E5M2 three.
        DType::F8E4m3 => random | 0x7F,
        DType::F8E5m2 => (random & 0x80) | (0x7D + (random & 0xff) % 3),
        // Close to the smallest value.
        DType::I64 => random >> 16 | 1 << 63,
        DType::I32 => random & 0xFF_FFFF | 1 << 31,
        DType::I16 => random & 0xFF | 1 << 15,
        // Any byte may be an answer: only the whole pattern is improbable.
        DType::I8 | DType::U8 => random,
        // No boolean at all.
        DType::Bool => random | 0x80,
    }
}

/// Fills `bytes`, elements of `dtype`, with poison. Trailing bytes short of an element get its first bytes.
pub fn fill_poison(dtype: DType, bytes: &mut [u8], seed: u64) {
    for (index, element) in bytes.chunks_mut(dtype.size()).enumerate() {
        let poison = pattern(dtype, seed, index).to_le_bytes();
        element.copy_from_slice(&poison[..element.len()]);
    }
}

/// Number of elements that still hold the poison of `seed`. For types of one byte some answers equal it by
/// chance: judge their count with [`is_poison_left`].
#[must_use]
pub fn poison_remains(dtype: DType, bytes: &[u8], seed: u64) -> usize {
    let size = dtype.size();
    // Poison of these types is NaN, which outputs hardly ever hold: one quick look settles most of them.
    let none_is_nan = match dtype {
        DType::F32 => !bytes.as_chunks().0.iter().fold(false, |any, e| any | f32::from_le_bytes(*e).is_nan()),
        DType::F64 => !bytes.as_chunks().0.iter().fold(false, |any, e| any | f64::from_le_bytes(*e).is_nan()),
        _ => false,
    };
    if none_is_nan {
        return 0;
    }
    bytes
        .chunks_exact(size)
        .enumerate()
        .filter(|(index, element)| **element == pattern(dtype, seed, *index).to_le_bytes()[..size])
        .count()
}

/// Whether `remains` of `elements` poisoned elements means that the call left some unwritten. One is enough,
/// except for the byte integers: a written one equals its poison once in 256 times, so the count must lie
/// eight standard deviations above that, and fewer than about 10 unwritten bytes go unseen (as do more of
/// them in a large output: the comparison with the reference has to find those).
#[must_use]
pub fn is_poison_left(dtype: DType, remains: usize, elements: usize) -> bool {
    if matches!(dtype, DType::I8 | DType::U8) {
        let expected = elements as f64 / 256.0;
        remains as f64 > expected + 8.0 * expected.sqrt() + 8.0 || (remains == elements && elements >= 4)
    } else {
        remains > 0
    }
}

/// The eight canary bytes at offset `8 × word`.
#[inline]
const fn canary(seed: u64, word: usize) -> [u8; 8] {
    mix(!seed ^ (word as u64).wrapping_add(1).wrapping_mul(STEP)).to_le_bytes()
}

/// Fills a redzone.
pub fn fill_canary(bytes: &mut [u8], seed: u64) {
    for (word, piece) in bytes.chunks_mut(8).enumerate() {
        piece.copy_from_slice(&canary(seed, word)[..piece.len()]);
    }
}

/// The first byte of a redzone that is not what [`fill_canary`] wrote.
#[must_use]
pub fn check_canary(bytes: &[u8], seed: u64) -> Option<usize> {
    for (word, piece) in bytes.chunks(8).enumerate() {
        let expected = canary(seed, word);
        if *piece != expected[..piece.len()] {
            return piece.iter().zip(expected).position(|(&a, b)| a != b).map(|at| word * 8 + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn poison_is_nan_or_improbable_and_varies() {
        for dtype in DType::ALL {
            let mut bytes = vec![0; 4000 * dtype.size()];
            fill_poison(dtype, &mut bytes, 9);
            let mut values = Vec::new();
            codec::decode(dtype, &bytes, &mut values).unwrap();
            if dtype.is_float() {
                assert!(values.iter().all(|v| v.is_nan()), "{dtype}");
            }
            match dtype {
                DType::I64 => assert!(values.iter().all(|&v| v < -9.22e18)),
                DType::I32 => assert!(values.iter().all(|&v| v < -2.1e9)),
                DType::I16 => assert!(values.iter().all(|&v| v < -32_000.0)),
                DType::Bool => assert!(values.iter().all(|&v| v > 1.0)),
                _ => {}
            }
            let distinct: std::collections::HashSet<&[u8]> = bytes.chunks(dtype.size()).collect();
            assert!(distinct.len() >= if dtype == DType::F8E4m3 { 2 } else { 6 }, "{dtype}");

            assert_eq!(poison_remains(dtype, &bytes, 9), 4000);
            assert!(is_poison_left(dtype, 4000, 4000));
            let other = poison_remains(dtype, &bytes, 10);
            // Only types with few patterns coincide.
            let most = if dtype.size() >= 4 { 0 } else { 2200 };
            assert!(other <= most, "{dtype} {other}");

            bytes[17 * dtype.size()..].fill(0);
            let remains = poison_remains(dtype, &bytes, 9);
            assert!(is_poison_left(dtype, remains, 4000) || matches!(dtype, DType::I8 | DType::U8));
            bytes.fill(0);
            assert!(!is_poison_left(dtype, poison_remains(dtype, &bytes, 9), 4000), "{dtype}");
        }
    }

    #[test]
    fn one_unwritten_element_is_seen() {
        for dtype in DType::ALL.into_iter().filter(|d| !matches!(d, DType::I8 | DType::U8)) {
            let mut bytes = vec![0; 100 * dtype.size()];
            fill_poison(dtype, &mut bytes, 1);
            let kept = bytes[60 * dtype.size()..61 * dtype.size()].to_vec();
            bytes.fill(0);
            bytes[60 * dtype.size()..61 * dtype.size()].copy_from_slice(&kept);
            assert_eq!(poison_remains(dtype, &bytes, 1), 1);
        }
    }

    #[test]
    fn canary_names_the_first_changed_byte() {
        for len in [1, 8, 13, 4096] {
            let mut bytes = vec![0; len];
            fill_canary(&mut bytes, 5);
            assert_eq!(check_canary(&bytes, 5), None);
            if len >= 8 {
                assert_eq!(check_canary(&bytes, 6), Some(0));
            }
            for at in [len - 1, len / 2] {
                let mut written = bytes.clone();
                written[at] ^= 0x10;
                assert_eq!(check_canary(&written, 5), Some(at));
            }
        }
    }
}
