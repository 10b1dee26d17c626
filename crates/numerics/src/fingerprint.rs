//! Fingerprints of buffers: was this written to since?

use crate::rng::mix;

const SECRET: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0x27D4_EB2F_1656_67C5];

/// A fast 64-bit fingerprint without a key: for finding accidental changes and naming contents. Whoever knows
/// the function can build a collision; use [`fingerprint_keyed`] against code that might.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u64 {
    fingerprint_keyed(bytes, 0)
}

/// A fast 64-bit fingerprint under a secret key, drawn afresh where a candidate could profit from a collision.
#[must_use]
pub fn fingerprint_keyed(bytes: &[u8], key: u64) -> u64 {
    let secret = SECRET.map(|s| mix(s ^ mix(key)) | 1);
    // Four independent lanes hide the latency of the multiplication.
    let mut lanes = secret;
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        for (lane, (pair, s)) in lanes.iter_mut().zip(block.chunks_exact(16).zip(secret)) {
            *lane = fold(word(&pair[..8]) ^ s, word(&pair[8..]) ^ *lane) ^ lane.rotate_left(23);
        }
    }
    let mut state = mix(bytes.len() as u64 ^ secret[3]);
    for lane in lanes {
        state = fold(state ^ lane, secret[0] ^ lane.rotate_left(32)).wrapping_add(mix(state ^ lane));
    }
    for piece in blocks.remainder().chunks(8) {
        state = fold(state ^ word(piece), secret[1]).wrapping_add(mix(state ^ secret[2]));
    }
    mix(state)
}

/// Sums that a fingerprint in any order is made of, before [`finish_unordered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums(pub [u64; 2]);

impl Sums {
    /// Takes the eight bytes at offset `8 × index`. Their mask is as secret as the key, so neither another value nor
    /// another place can be chosen to cancel.
    pub const fn take(&mut self, key: u64, index: u64, word: u64) {
        let mask = mix(key.wrapping_add(index.wrapping_add(1).wrapping_mul(SECRET[0])));
        let mixed = mix(word ^ mask);
        self.0[0] = self.0[0].wrapping_add(mixed);
        self.0[1] = self.0[1].wrapping_add(mixed.rotate_left(32).wrapping_mul(mask | 1));
    }
}

/// The fingerprint of `bytes` bytes whose words were taken, in any order, into `sums`.
#[must_use]
pub const fn finish_unordered(sums: Sums, bytes: u64, key: u64) -> u128 {
    let [sum, product] = sums.0;
    let length = mix(bytes ^ mix(!key));
    (mix(sum ^ length) as u128) << 64 | mix(product ^ length.rotate_left(32)) as u128
}

/// A 128-bit fingerprint under a secret key whose words may be taken in any order: what a GPU computes.
#[must_use]
pub fn fingerprint_unordered(bytes: &[u8], key: u64) -> u128 {
    let mut sums = Sums::default();
    for (index, piece) in bytes.chunks(8).enumerate() {
        sums.take(key, index as u64, word(piece));
    }
    finish_unordered(sums, bytes.len() as u64, key)
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Ok(whole) = <[u8; 8]>::try_from(bytes) {
        return u64::from_le_bytes(whole);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_bit_and_the_length_matter() {
        for len in [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 200] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
            let mut seen = HashSet::from([fingerprint(&bytes)]);
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(fingerprint(&bytes)), "bit {bit} of {len} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.push(0);
            assert!(seen.insert(fingerprint(&bytes)));
        }
    }

    #[test]
    fn order_of_blocks_and_key_matter() {
        let mut bytes = vec![0u8; 256];
        bytes[..64].fill(1);
        let first = fingerprint(&bytes);
        bytes.rotate_right(64);
        assert_ne!(first, fingerprint(&bytes));
        assert_ne!(fingerprint_keyed(&bytes, 1), fingerprint_keyed(&bytes, 2));
        let zeros: HashSet<u64> = (0..1000).map(|n| fingerprint(&vec![0; n])).collect();
        assert_eq!(zeros.len(), 1000);
    }

    #[test]
    fn unordered_fingerprints_depend_on_every_bit_place_length_and_key() {
        for len in [0, 1, 7, 8, 9, 64, 130] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
            let mut seen = HashSet::from([fingerprint_unordered(&bytes, 4)]);
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(fingerprint_unordered(&bytes, 4)), "bit {bit} of {len} bytes");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            bytes.push(0);
            assert!(seen.insert(fingerprint_unordered(&bytes, 4)));
            assert!(seen.insert(fingerprint_unordered(&bytes, 5)));
        }
        let mut bytes = vec![0u8; 256];
        bytes[..8].fill(1);
        let rotations: HashSet<u128> = (0..32)
            .map(|_| {
                bytes.rotate_right(8);
                fingerprint_unordered(&bytes, 1)
            })
            .collect();
        assert_eq!(rotations.len(), 32);
        let mut counts = [0u32; 128];
        for i in 0..4096u32 {
            let f = fingerprint_unordered(&i.to_le_bytes(), 9);
            counts.iter_mut().enumerate().for_each(|(b, c)| *c += (f >> b & 1) as u32);
        }
        assert!(counts.iter().all(|&c| (1850..2250).contains(&c)), "{counts:?}");
    }

    #[test]
    fn output_bits_are_balanced() {
        let mut counts = [0u32; 64];
        for i in 0..4096u32 {
            let f = fingerprint(&i.to_le_bytes());
            counts.iter_mut().enumerate().for_each(|(b, c)| *c += (f >> b & 1) as u32);
        }
        assert!(counts.iter().all(|&c| (1850..2250).contains(&c)), "{counts:?}");
    }
}
