//! Poison, canaries, fingerprints, differences, errors, and the layout of what is passed.

use crate::cases::FLOATS;
use crate::emulator::{BLOCKS, Job, words_of};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::fingerprint::{Sums, fingerprint_unordered, finish_unordered};
use kernelseek_numerics::metrics::{Asked, ErrorSummary, compare_asked, compare_reference};
use kernelseek_numerics::partials::{self, ERROR_WORDS, ErrorPart, SCALE_WORDS, ScalePart};
use kernelseek_numerics::{codec, poison};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn poison_canaries_and_fingerprints_are_the_twins(
        bytes in prop::collection::vec(any::<u8>(), 0..600), shift in 0u64..3, seed in any::<u64>(), at in any::<usize>(),
    ) {
        let shift = [0, 8, 3][shift as usize];
        for dtype in DType::ALL {
            let size = dtype.size() as u64;
            // Elements are aligned to their size; canaries and fingerprints take any address.
            let element_shift = shift / size * size;
            let mut buffer = vec![0xEE; shift as usize];
            buffer.extend(&bytes);
            let length = bytes.len() as u64;
            let mut job = Job::default();
            let poisoned = job.buffer(vec![0xEE; buffer.len() + 8]);
            let left = job.words(&[0]);
            let canary = job.buffer(vec![0xEE; buffer.len() + 8]);
            let (first, sums) = (job.words(&[u64::MAX]), job.words(&[0, 0]));
            let plain = job.buffer(buffer.clone());
            let list = job.words(&[
                poisoned + element_shift, length, seed, dtype as u64, canary + shift, length, seed, 0,
                plain + shift, length, seed, 0,
            ]);
            job.call(10, [vec![list, 1]]);
            job.call(11, [vec![list, 1, left]]);
            job.call(12, [vec![list + 32, 1]]);
            job.call(13, [vec![list + 32, 1, first]]);
            job.call(14, [vec![list + 64, 1, sums]]);
            let Some(after) = job.run() else { return Ok(()) };
            let mut expected = vec![0xEE; buffer.len() + 8];
            let range = element_shift as usize..element_shift as usize + bytes.len();
            poison::fill_poison(dtype, &mut expected[range.clone()], seed);
            prop_assert!(after[0] == expected, "{}", dtype);
            let remains = poison::poison_remains(dtype, &expected[range], seed);
            prop_assert_eq!(words_of(&after[1])[0], remains as u64);
            prop_assert_eq!(remains, bytes.len() / dtype.size());
            let mut expected = vec![0xEE; buffer.len() + 8];
            poison::fill_canary(&mut expected[shift as usize..][..bytes.len()], seed);
            prop_assert!(after[2] == expected);
            prop_assert_eq!(words_of(&after[3])[0], u64::MAX);
            let sums = Sums(words_of(&after[4]).try_into().unwrap());
            prop_assert_eq!(finish_unordered(sums, length, seed), fingerprint_unordered(&bytes, seed));
            if !bytes.is_empty() {
                let at = at % bytes.len();
                let mut job = Job::default();
                let mut touched = after[2].clone();
                touched[shift as usize + at] ^= 0x20;
                let canary = job.buffer(touched.clone());
                let first = job.words(&[u64::MAX]);
                let mut half = after[0].clone();
                half[element_shift as usize..][..at].fill(3);
                let (poisoned, left) = (job.buffer(half.clone()), job.words(&[0]));
                let list = job.words(&[
                    canary + shift, length, seed, 0, poisoned + element_shift, length, seed, dtype as u64,
                ]);
                job.call(13, [vec![list, 1, first]]);
                job.call(11, [vec![list + 32, 1, left]]);
                let after = job.run().unwrap();
                prop_assert_eq!(words_of(&after[1])[0], at as u64);
                let remains = poison::poison_remains(dtype, &half[element_shift as usize..][..bytes.len()], seed);
                prop_assert_eq!(words_of(&after[3])[0], remains as u64);
            }
        }
    }

    #[test]
    fn errors_are_those_of_the_metrics(
        picks in prop::collection::vec((any::<u64>(), 0u8..20), 0..300), exponent in -3i32..4, shift in 0usize..2,
    ) {
        for dtype in DType::ALL {
            let (reference, candidate) = pairs(dtype, &picks, exponent);
            let shift = shift * dtype.size();
            for asked in [Asked::Whole, Asked::Part] {
                let expected = compare_asked(dtype, &reference, &candidate, asked).unwrap();
                let Some(found) = emulate(dtype, dtype, &reference, &candidate, shift, asked) else { return Ok(()) };
                same(&found, &expected, dtype)?;
            }
            // Against doubles, and against singles where they are no rounding.
            let mut values = Vec::new();
            codec::decode(dtype, &reference, &mut values).unwrap();
            let finer: Vec<f64> = values.iter().map(|v| if dtype.is_float() { v * 1.000_001 } else { *v }).collect();
            let words: Vec<u8> = finer.iter().flat_map(|v| v.to_le_bytes()).collect();
            let expected = compare_reference(dtype, &finer, &candidate).unwrap();
            let found = emulate(DType::F64, dtype, &words, &candidate, shift, Asked::Whole).unwrap();
            same(&found, &expected, dtype)?;
            let single: Vec<f64> = finer.iter().map(|v| f64::from(*v as f32)).collect();
            let words: Vec<u8> = single.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
            let expected = compare_reference(dtype, &single, &candidate).unwrap();
            let found = emulate(DType::F32, dtype, &words, &candidate, shift, Asked::Whole).unwrap();
            same(&found, &expected, dtype)?;
        }
    }
}

/// Values of every kind, and candidates that are equal, near, far, not finite.
fn pairs(dtype: DType, picks: &[(u64, u8)], exponent: i32) -> (Vec<u8>, Vec<u8>) {
    let scale = if dtype == DType::F64 { 10f64.powi(exponent * 60) } else { 1.0 };
    let (mut r, mut c) = (Vec::new(), Vec::new());
    for &(bits, kind) in picks {
        let unit = (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let value = unit * [1.0, 0.05, 1e-4, 100.0][(bits % 4) as usize] * scale;
        let near = value * (1.0 + [0.0, 0.01, -0.02, 0.5][(bits / 4 % 4) as usize]);
        let (a, b) = match kind {
            0 => (0.0, -0.0),
            1 => (f64::INFINITY, f64::INFINITY),
            2 => (f64::NAN, f64::NAN),
            3 => (f64::NEG_INFINITY, value),
            4 => (value, f64::NAN),
            5 => (value, f64::INFINITY),
            6 => (dtype.max_finite(), -dtype.max_finite()),
            7 => (0.0, near),
            _ => (value, near),
        };
        r.push(a);
        c.push(b);
    }
    let encode = |values: &[f64]| {
        let mut bytes = vec![0; values.len() * dtype.size()];
        codec::encode_ieee(dtype, values, &mut bytes).unwrap();
        bytes
    };
    (encode(&r), encode(&c))
}

fn emulate(
    reference_dtype: DType,
    dtype: DType,
    reference: &[u8],
    candidate: &[u8],
    shift: usize,
    asked: Asked,
) -> Option<ErrorSummary> {
    let count = candidate.len() / dtype.size();
    let mut job = Job::default();
    let moved = |bytes: &[u8], by: usize| [vec![0xEE; by], bytes.to_vec()].concat();
    let a = job.buffer(moved(reference, shift / dtype.size() * reference_dtype.size()));
    let b = job.buffer(moved(candidate, shift));
    let (a, b) = (a + (shift / dtype.size() * reference_dtype.size()) as u64, b + shift as u64);
    let (code, reference_code) = (dtype as u64, reference_dtype as u64);
    if !dtype.is_float() {
        let result = job.words(&[0, u64::MAX]);
        if reference_dtype == dtype {
            job.call(15, [vec![a, b, candidate.len() as u64, dtype.size() as u64, result]]);
        } else {
            job.call(16, [vec![a, reference_code, b, code, count as u64, result]]);
        }
        let words = words_of(&job.run()?[2]);
        return Some(partials::exact(count, words[0], words[1]));
    }
    let part = 2 * SCALE_WORDS + ERROR_WORDS;
    let results = job.words(&vec![0; BLOCKS * part]);
    job.call(17, [vec![a, reference_code, b, code, count as u64, results, u64::from(asked == Asked::Part)]]);
    let words = words_of(&job.run()?[2]);
    let (_, words) = words.split_at(BLOCKS * SCALE_WORDS);
    let (scales, errors) = words.split_at(BLOCKS * SCALE_WORDS);
    let scales: Vec<_> = scales.as_chunks().0.iter().map(|w| ScalePart::from_words(*w)).collect();
    let errors: Vec<_> = errors.as_chunks().0.iter().map(|w| ErrorPart::from_words(*w)).collect();
    Some(partials::combine(count, asked, &scales, &errors))
}

/// Everything equal, root-mean-squares within the rounding of another order.
fn same(found: &ErrorSummary, expected: &ErrorSummary, dtype: DType) -> Result<(), TestCaseError> {
    let mut found = found.clone();
    let close = |a: &mut f64, b: f64| {
        if (*a - b).abs() <= 1e-12 * b.abs() {
            *a = b;
        }
    };
    close(&mut found.rms_err, expected.rms_err);
    close(&mut found.ref_rms, expected.ref_rms);
    for (f, e) in found.classes.iter_mut().zip(&expected.classes) {
        close(&mut f.rms_err, e.rms_err);
    }
    prop_assert_eq!(&found, expected, "{}", dtype);
    Ok(())
}

#[test]
fn ties_go_to_the_first_element() {
    for dtype in FLOATS {
        let size = dtype.size();
        let (reference, mut values) = (vec![0u8; 1000 * size], vec![0.0; 1000]);
        for at in [999, 500, 123] {
            values[at] = 2.0;
            let mut candidate = vec![0; 1000 * size];
            codec::encode(dtype, &values, &mut candidate).unwrap();
            let Some(found) = emulate(dtype, dtype, &reference, &candidate, 0, Asked::Whole) else { return };
            assert_eq!(found.worst, Some(at), "{dtype}");
        }
    }
}

#[test]
fn structures_lie_as_the_words_are_written() {
    let mut job = Job::default();
    let out = job.words(&[0; 64]);
    job.call(20, [vec![out]]);
    let Some(after) = job.run() else { return };
    let words = |w: &[u64]| w.iter().map(|x| x * 8).collect::<Vec<u64>>();
    let mut expected = words(&[29, 1, 2, 3, 4, 5, 13, 21]);
    expected.extend(words(&[16, 2, 4, 5, 6, 7, 8, 10, 11, 13]));
    expected.extend(words(&[19, 1, 2, 3, 11]));
    expected.extend(words(&[8, 2, 3, 5, 6]));
    expected.extend(words(&[4, 1, 2, 3]));
    expected.extend(words(&[2, 3, 1, 2]));
    expected.extend(words(&[20, 5, 10, 15, 18]));
    expected.extend(words(&[5, 1, 2, 3, 4]));
    assert_eq!(words_of(&after[0])[..expected.len()], expected);
    assert!(words_of(&after[0])[expected.len()..].iter().all(|&w| w == 0));
}
