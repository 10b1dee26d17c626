//! Caches of the CPU: their sizes, and eviction of address ranges.

use std::path::Path;

/// Evicts `bytes` from every cache level of the coherence domain, ending in a read fence. Returns whether the
/// processor offers it to user programs; where it does not, [`sweep`] reads a buffer larger than the last-level
/// cache instead.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "cache line flush instruction")]
#[must_use]
pub fn flush_range(bytes: &[u8]) -> bool {
    use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence};
    // SAFETY: `clflush` is part of x86-64 and touches only lines of a live slice.
    unsafe {
        _mm_mfence();
        let mut offset = 0;
        while offset < bytes.len() {
            _mm_clflush(bytes.as_ptr().add(offset));
            offset += 64;
        }
        if let Some(last) = bytes.last() {
            _mm_clflush(last);
        }
        _mm_mfence();
        _mm_lfence();
    }
    true
}

/// Evicts `bytes` from every cache level: not offered to user programs on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn flush_range(_bytes: &[u8]) -> bool {
    false
}

/// [`flush_range`] for words.
#[expect(unsafe_code, reason = "byte view of integers")]
pub fn flush_words(words: &[u64]) {
    // SAFETY: integers have no padding and any byte may be read; the length is that of the same slice.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
    let _ = flush_range(bytes);
}

/// Reads `buffer` once, so that a last-level cache smaller than it holds nothing else. Ends in reads and writes
/// nothing, so no write-back is charged to the next call.
#[must_use]
pub fn sweep(buffer: &[u64]) -> u64 {
    buffer.iter().step_by(8).fold(0, |sum, &x| sum.wrapping_add(std::hint::black_box(x)))
}

/// Size of the last-level cache in bytes, from sysfs; 32 MiB when the machine does not say.
#[must_use]
pub fn last_level_bytes() -> usize {
    let base = Path::new("/sys/devices/system/cpu/cpu0/cache");
    (0..8)
        .filter_map(|index| {
            let text = std::fs::read_to_string(base.join(format!("index{index}/size"))).ok()?;
            parse_size(text.trim())
        })
        .max()
        .unwrap_or(32 << 20)
}

/// Parses `32768K` and the like.
fn parse_size(text: &str) -> Option<usize> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: usize = digits.parse().ok()?;
    match unit {
        "" => Some(number),
        "K" => Some(number << 10),
        "M" => Some(number << 20),
        "G" => Some(number << 30),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        for (text, expected) in
            [("32768K", Some(32 << 20)), ("64", Some(64)), ("8M", Some(8 << 20)), ("x", None), ("1T", None)]
        {
            assert_eq!(parse_size(text), expected, "{text}");
        }
        assert!(last_level_bytes() >= 1 << 18);
    }

    #[test]
    fn a_flush_changes_no_data() {
        let data = vec![7u8; 10_000];
        let _ = flush_range(&data);
        assert!(data.iter().all(|&b| b == 7));
        assert_eq!(sweep(&[1; 64]), 8);
    }
}
