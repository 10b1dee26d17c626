//! The codecs against independent implementations: every bit pattern of the small types, and the nearest
//! value by search in the list of all of them.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail it")]

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec::*;
use proptest::prelude::*;

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn decode_all(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let mut out = vec![1.0; 3];
    decode(dtype, bytes, &mut out).unwrap();
    out
}

fn encode_one(dtype: DType, value: f64) -> Vec<u8> {
    let mut bytes = vec![0xaa; dtype.size()];
    encode(dtype, &[value], &mut bytes).unwrap();
    bytes
}

#[test]
fn every_fp8_byte() {
    let bytes: Vec<u8> = (0..=255).collect();
    let e4m3 = decode_all(DType::F8E4m3, &bytes);
    let e5m2 = decode_all(DType::F8E5m2, &bytes);
    for b in 0..=255u8 {
        let i = usize::from(b);
        assert!(same(e4m3[i], F8E4M3::from_bits(b).to_f64()), "e4m3 {b:#x}");
        assert!(same(e5m2[i], F8E5M2::from_bits(b).to_f64()), "e5m2 {b:#x}");
        assert_eq!(read(DType::F8E4m3, &bytes, i).map(f64::to_bits), Some(e4m3[i].to_bits()));
        for (dtype, value) in [(DType::F8E4m3, e4m3[i]), (DType::F8E5m2, e5m2[i])] {
            let back = encode_one(dtype, value);
            if value.is_nan() {
                assert!(decode_all(dtype, &back)[0].is_nan());
            } else {
                assert_eq!(back, [b], "{dtype} {value}");
            }
        }
    }
    assert_eq!(e4m3.iter().filter(|v| v.is_nan()).count(), 2);
    assert_eq!(e5m2.iter().filter(|v| v.is_nan()).count(), 6);
}

#[test]
fn every_half_and_bfloat_pattern() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::F16, DType::Bf16] {
        let values = decode_all(dtype, &bytes);
        let mut back = vec![0; bytes.len()];
        encode(dtype, &values, &mut back).unwrap();
        for bits in 0..=u16::MAX {
            let value = values[usize::from(bits)];
            let oracle = match dtype {
                DType::F16 => f16::from_bits(bits).to_f64(),
                _ => bf16::from_bits(bits).to_f64(),
            };
            assert!(same(value, oracle), "{dtype} {bits:#x}: {value} {oracle}");
            let encoded = &back[usize::from(bits) * 2..][..2];
            if value.is_nan() {
                assert!(read(dtype, encoded, 0).unwrap().is_nan());
            } else {
                assert_eq!(encoded, bits.to_le_bytes(), "{dtype} {value}");
            }
        }
    }
}

/// All finite values of a type that are not negative, ascending, with their bits.
fn positive_values(dtype: DType) -> Vec<(f64, u32)> {
    let count = 1u32 << (8 * dtype.size() - 1);
    let values = (0..count).map(|b| (read(dtype, &b.to_le_bytes(), 0).unwrap(), b));
    values.filter(|(v, _)| v.is_finite()).collect()
}

/// Round to nearest, ties to even, saturating: by looking at both neighbours.
fn nearest(values: &[(f64, u32)], x: f64) -> u32 {
    let above = values.partition_point(|v| v.0 < x);
    let Some(&(hi, hi_bits)) = values.get(above) else { return values[values.len() - 1].1 };
    if above == 0 || hi == x {
        return hi_bits;
    }
    let (lo, lo_bits) = values[above - 1];
    // Exact: the type's values have few bits, and x lies between neighbours.
    match (x - lo).partial_cmp(&(hi - x)).unwrap() {
        std::cmp::Ordering::Less => lo_bits,
        std::cmp::Ordering::Greater => hi_bits,
        std::cmp::Ordering::Equal => lo_bits + (lo_bits & 1),
    }
}

#[test]
fn ties_and_their_neighbours() {
    for dtype in [DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2] {
        let values = positive_values(dtype);
        let sign = 1u32 << (8 * dtype.size() - 1);
        for pair in values.windows(2) {
            let tie = 0.5 * (pair[0].0 + pair[1].0);
            for x in [pair[0].0, tie.next_down(), tie, tie.next_up(), pair[1].0.next_down()] {
                let expected = nearest(&values, x);
                assert_eq!(encode_one(dtype, x), expected.to_le_bytes()[..dtype.size()], "{dtype} {x:e}");
                assert_eq!(encode_one(dtype, -x), (sign | expected).to_le_bytes()[..dtype.size()]);
            }
        }
        let tiny = codec_least(dtype);
        assert_eq!(round_to(dtype, tiny * 0.5), 0.0);
        assert_eq!(round_to(dtype, tiny * 0.5000001), tiny);
        assert_eq!(round_to(dtype, f64::from_bits(1)), 0.0);
    }
}

fn codec_least(dtype: DType) -> f64 {
    assert_eq!(smallest_subnormal(dtype), positive_values(dtype)[1].0);
    smallest_subnormal(dtype)
}

#[test]
fn overflow_in_both_manners() {
    // Value, saturating, IEEE.
    let inf = f64::INFINITY;
    let cases = [
        (DType::F8E4m3, 448.0, 448.0, 448.0),
        (DType::F8E4m3, 464.0, 448.0, 448.0),
        (DType::F8E4m3, 464.1, 448.0, f64::NAN),
        (DType::F8E4m3, 1e9, 448.0, f64::NAN),
        (DType::F8E4m3, inf, 448.0, f64::NAN),
        (DType::F8E5m2, 61439.0, 57344.0, 57344.0),
        (DType::F8E5m2, 61440.0, 57344.0, inf),
        (DType::F8E5m2, inf, inf, inf),
        (DType::F16, 65519.0, 65504.0, 65504.0),
        (DType::F16, 65520.0, 65504.0, inf),
        (DType::Bf16, 3.4e38, DType::Bf16.max_finite(), inf),
        (DType::F32, 1e39, f64::from(f32::MAX), inf),
        (DType::F32, inf, inf, inf),
    ];
    for (dtype, value, saturated, ieee) in cases {
        for sign in [1.0, -1.0] {
            let mut bytes = vec![0; dtype.size()];
            encode(dtype, &[sign * value], &mut bytes).unwrap();
            assert!(same(read(dtype, &bytes, 0).unwrap(), sign * saturated), "{dtype} {value}");
            encode_ieee(dtype, &[sign * value], &mut bytes).unwrap();
            let got = read(dtype, &bytes, 0).unwrap();
            assert!(same(got, sign * ieee), "{dtype} {value} {got}");
        }
    }
    for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
        assert!(round_to(dtype, f64::NAN).is_nan());
        assert_eq!(round_to(dtype, dtype.max_finite()), dtype.max_finite());
        assert_eq!(round_to(dtype, 1.0 + dtype.epsilon()), 1.0 + dtype.epsilon());
        assert_eq!(round_to(dtype, 1.0 + 0.5 * dtype.epsilon()), 1.0);
    }
}

#[test]
fn integers_round_saturate_and_stay_exact() {
    for (dtype, value, expected) in [
        (DType::I8, 2.5, 2),
        (DType::I8, 3.5, 4),
        (DType::I8, -200.0, -128),
        (DType::U8, -3.0, 0),
        (DType::U8, 300.0, 255),
        (DType::I16, 40_000.0, 32_767),
        (DType::I32, f64::NAN, 0),
        (DType::I64, 1e19, i64::MAX),
        (DType::Bool, 0.25, 1),
    ] {
        assert_eq!(read_i64(dtype, &encode_one(dtype, value), 0), Some(expected), "{dtype} {value}");
    }
    let big = [i64::MAX, i64::MIN, (1 << 53) + 1, -(1 << 53) - 1];
    let mut bytes = vec![0; 32];
    encode_i64(DType::I64, &big, &mut bytes).unwrap();
    for (i, &v) in big.iter().enumerate() {
        assert_eq!(read_i64(DType::I64, &bytes, i), Some(v));
        assert_eq!(read(DType::I64, &bytes, i), Some(v as f64));
    }
    assert_eq!(read_i64(DType::I64, &bytes, 4), None);
    assert_eq!(read_i64(DType::F64, &bytes, 0), None);
    assert_eq!(read(DType::I64, &bytes, usize::MAX), None);
    let refused = encode_i64(DType::U8, &[3, -1], &mut bytes[..2]);
    assert_eq!(refused, Err(CodecError::Range { index: 1, value: -1, dtype: DType::U8 }));
    // A stray boolean byte stays visible.
    assert_eq!(read(DType::Bool, &[2], 0), Some(2.0));
}

#[test]
fn exact_conversion_refuses_what_would_change() {
    let mut bytes = [0; 16];
    encode_exact(DType::F16, &[1.0, -0.0, f64::NAN, f64::INFINITY, 2f64.powi(-24)], &mut bytes[..10])
        .unwrap();
    for (dtype, value) in [
        (DType::F16, 0.1),
        (DType::F16, 1e6),
        (DType::F8E4m3, f64::INFINITY),
        (DType::F32, 1.0 + 2f64.powi(-30)),
        (DType::I32, 0.5),
        (DType::I32, -0.0),
        (DType::I32, f64::NAN),
        (DType::U8, 256.0),
        (DType::Bool, 2.0),
        (DType::I64, 2f64.powi(63)),
    ] {
        let result = encode_exact(dtype, &[1.0, value], &mut bytes[..2 * dtype.size()]);
        assert!(matches!(result, Err(CodecError::Inexact { index: 1, .. })), "{dtype} {value} {result:?}");
    }
    assert!(matches!(encode(DType::F32, &[1.0], &mut bytes[..3]), Err(CodecError::Length { .. })));
    assert!(matches!(decode(DType::F32, &bytes[..3], &mut vec![]), Err(CodecError::Length { .. })));
}

proptest! {
    #[test]
    fn any_value_rounds_to_the_nearest(bits in any::<u64>(), scale in -60i32..30) {
        let mantissa = f64::from_bits(bits >> 12 | 0x3ff0 << 48);
        for x in [mantissa * 2f64.powi(scale), f64::from_bits(bits).abs()] {
            if x.is_nan() || x.is_infinite() {
                continue;
            }
            for dtype in [DType::F8E4m3, DType::F8E5m2] {
                let expected = nearest(&positive_values(dtype), x);
                prop_assert_eq!(encode_one(dtype, x)[0], expected as u8, "{} {:e}", dtype, x);
            }
        }
    }

    #[test]
    fn singles_round_as_half_does(bits in any::<u32>()) {
        let x = f32::from_bits(bits);
        prop_assume!(!x.is_nan());
        let mut bytes = [0; 2];
        encode_ieee(DType::F16, &[x.into()], &mut bytes).unwrap();
        prop_assert_eq!(u16::from_le_bytes(bytes), f16::from_f32(x).to_bits());
        encode_ieee(DType::Bf16, &[x.into()], &mut bytes).unwrap();
        prop_assert_eq!(u16::from_le_bytes(bytes), bf16::from_f32(x).to_bits());
    }

    #[test]
    fn wide_types_are_plain_casts(x in any::<f64>(), i in any::<i64>()) {
        prop_assume!(!x.is_nan());
        let mut four = [0; 4];
        encode_ieee(DType::F32, &[x], &mut four).unwrap();
        prop_assert_eq!(f32::from_le_bytes(four), x as f32);
        let mut eight = [0; 8];
        encode_ieee(DType::F64, &[x], &mut eight).unwrap();
        prop_assert_eq!(f64::from_le_bytes(eight), x);
        for (dtype, back) in [(DType::I32, i64::from(i as i32)), (DType::I16, i64::from(i as i16)), (DType::I8, i64::from(i as i8))] {
            let bytes = back.to_le_bytes();
            prop_assert_eq!(read_i64(dtype, &bytes[..dtype.size()], 0), Some(back));
            prop_assert_eq!(encode_one(dtype, back as f64), &bytes[..dtype.size()]);
        }
    }
}
