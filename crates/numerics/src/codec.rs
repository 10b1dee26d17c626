//! Bytes ⇄ numbers for every element type of the call contract, little-endian.
//!
//! Conversions to a type round to nearest, ties to even. Three answers to values that do not fit:
//! [`encode`] saturates (a finite value never becomes infinite or NaN: E4M3 stops at ±448, E5M2 at ±57344,
//! integers at their limits), [`encode_ieee`] overflows as the format says (±∞, NaN in E4M3), and
//! [`encode_exact`] refuses whatever would not be read back as the same value. In all three an infinity stays
//! one where the type has infinities, and NaN stays NaN (0 for integers when saturating).

use crate::small_float::{BF16, E4M3, E4M3_VALUES, E5M2, E5M2_VALUES, F16};
use kernelseek_core::dtype::DType;

pub use crate::small_float::Overflow;

/// Why bytes and numbers do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum CodecError {
    /// The byte count is no multiple of the element size, or not the element count times it.
    #[error("{bytes} bytes do not hold {expected} of {dtype}")]
    Length {
        /// Bytes given.
        bytes: usize,
        /// What they should hold.
        expected: Expected,
        /// Element type.
        dtype: DType,
    },
    /// A value that the type cannot hold exactly.
    #[error("value {value} at element {index} is not a value of {dtype}")]
    Inexact {
        /// Element.
        index: usize,
        /// Value.
        value: f64,
        /// Element type.
        dtype: DType,
    },
    /// An integer outside the range of the type.
    #[error("integer {value} at element {index} is outside the range of {dtype}")]
    Range {
        /// Element.
        index: usize,
        /// Value.
        value: i64,
        /// Element type.
        dtype: DType,
    },
}

/// What a byte slice was expected to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any whole number of elements.
    Whole,
    /// This many elements.
    Elements(usize),
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole => f.write_str("a whole number of elements"),
            Self::Elements(n) => write!(f, "{n} elements"),
        }
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut a = [0; N];
    a.copy_from_slice(bytes);
    a
}

/// Calls `each(index, value)` for every element; trailing bytes short of an element are ignored.
#[inline]
pub(crate) fn for_each(dtype: DType, bytes: &[u8], mut each: impl FnMut(usize, f64)) {
    macro_rules! walk {
        ($n:literal, $value:expr) => {
            bytes.chunks_exact($n).enumerate().for_each(|(i, c)| each(i, $value(array::<$n>(c))))
        };
    }
    match dtype {
        DType::F64 => walk!(8, f64::from_le_bytes),
        DType::F32 => walk!(4, |b| f64::from(f32::from_le_bytes(b))),
        DType::F16 => walk!(2, |b| F16.decode(u32::from(u16::from_le_bytes(b)))),
        DType::Bf16 => walk!(2, |b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))),
        DType::F8E4m3 => walk!(1, |b: [u8; 1]| E4M3_VALUES[usize::from(b[0])]),
        DType::F8E5m2 => walk!(1, |b: [u8; 1]| E5M2_VALUES[usize::from(b[0])]),
        DType::I64 => walk!(8, |b| i64::from_le_bytes(b) as f64),
        DType::I32 => walk!(4, |b| f64::from(i32::from_le_bytes(b))),
        DType::I16 => walk!(2, |b| f64::from(i16::from_le_bytes(b))),
        DType::I8 => walk!(1, |b| f64::from(i8::from_le_bytes(b))),
        DType::U8 | DType::Bool => walk!(1, |b: [u8; 1]| f64::from(b[0])),
    }
}

/// Replaces `out` by the values of all elements. Booleans give their byte (a stray 2 stays visible), `i64`
/// beyond 2⁵³ round to the nearest `f64` (see [`read_i64`]).
///
/// # Errors
/// The byte count is no multiple of the element size.
pub fn decode(dtype: DType, bytes: &[u8], out: &mut Vec<f64>) -> Result<(), CodecError> {
    if !bytes.len().is_multiple_of(dtype.size()) {
        return Err(CodecError::Length { bytes: bytes.len(), expected: Expected::Whole, dtype });
    }
    out.clear();
    out.reserve(bytes.len() / dtype.size());
    for_each(dtype, bytes, |_, value| out.push(value));
    Ok(())
}

/// The value of one element; `None` past the end.
#[must_use]
#[inline]
pub fn read(dtype: DType, bytes: &[u8], index: usize) -> Option<f64> {
    let mut value = None;
    for_each(dtype, element(dtype, bytes, index)?, |_, v| value = Some(v));
    value
}

/// The exact value of one integer or boolean element; `None` past the end and for float types.
#[must_use]
#[inline]
pub fn read_i64(dtype: DType, bytes: &[u8], index: usize) -> Option<i64> {
    let b = element(dtype, bytes, index)?;
    match dtype {
        DType::I64 => Some(i64::from_le_bytes(array(b))),
        DType::I32 => Some(i32::from_le_bytes(array(b)).into()),
        DType::I16 => Some(i16::from_le_bytes(array(b)).into()),
        DType::I8 => Some(i8::from_le_bytes(array(b)).into()),
        DType::U8 | DType::Bool => Some(b[0].into()),
        _ => None,
    }
}

fn element(dtype: DType, bytes: &[u8], index: usize) -> Option<&[u8]> {
    let start = index.checked_mul(dtype.size())?;
    bytes.get(start..start.checked_add(dtype.size())?)
}

/// Converts `values` into `bytes`, saturating.
///
/// # Errors
/// `bytes` does not hold exactly `values.len()` elements.
pub fn encode(dtype: DType, values: &[f64], bytes: &mut [u8]) -> Result<(), CodecError> {
    convert(dtype, values, bytes, Overflow::Saturate)
}

/// Converts `values` into `bytes` with the format's own overflow (integers still saturate).
///
/// # Errors
/// `bytes` does not hold exactly `values.len()` elements.
pub fn encode_ieee(dtype: DType, values: &[f64], bytes: &mut [u8]) -> Result<(), CodecError> {
    convert(dtype, values, bytes, Overflow::Ieee)
}

/// Converts `values` into `bytes`, refusing any value that would change (NaN counts as kept by floats only;
/// `-0.0` is not an integer value).
///
/// # Errors
/// A length mismatch, or the first value that the type cannot hold.
pub fn encode_exact(dtype: DType, values: &[f64], bytes: &mut [u8]) -> Result<(), CodecError> {
    convert(dtype, values, bytes, Overflow::Ieee)?;
    for (index, &value) in values.iter().enumerate() {
        let kept = read(dtype, bytes, index).is_some_and(|back| {
            // An i64 at 2⁶³ reads back as the same f64 although it saturated.
            let held = dtype != DType::I64 || value < 9_223_372_036_854_775_808.0;
            held && (back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan()))
        });
        if !kept {
            return Err(CodecError::Inexact { index, value, dtype });
        }
    }
    Ok(())
}

fn convert(dtype: DType, values: &[f64], bytes: &mut [u8], overflow: Overflow) -> Result<(), CodecError> {
    if Some(bytes.len()) != values.len().checked_mul(dtype.size()) {
        return Err(CodecError::Length {
            bytes: bytes.len(),
            expected: Expected::Elements(values.len()),
            dtype,
        });
    }
    put(dtype, values, bytes, overflow);
    Ok(())
}

/// [`convert`] over the elements that both sides have.
#[inline]
pub(crate) fn put(dtype: DType, values: &[f64], bytes: &mut [u8], overflow: Overflow) {
    macro_rules! walk {
        ($n:literal, $bytes:expr) => {
            bytes.chunks_exact_mut($n).zip(values).for_each(|(c, &v)| c.copy_from_slice(&$bytes(v)))
        };
    }
    match dtype {
        DType::F64 => walk!(8, f64::to_le_bytes),
        DType::F32 => walk!(4, |v| to_f32(v, overflow).to_le_bytes()),
        DType::F16 => walk!(2, |v| (F16.encode(v, overflow) as u16).to_le_bytes()),
        DType::Bf16 => walk!(2, |v| (BF16.encode(v, overflow) as u16).to_le_bytes()),
        DType::F8E4m3 => walk!(1, |v| [E4M3.encode(v, overflow) as u8]),
        DType::F8E5m2 => walk!(1, |v| [E5M2.encode(v, overflow) as u8]),
        // A float-to-integer `as` saturates and turns NaN into 0.
        DType::I64 => walk!(8, |v: f64| (v.round_ties_even() as i64).to_le_bytes()),
        DType::I32 => walk!(4, |v: f64| (v.round_ties_even() as i32).to_le_bytes()),
        DType::I16 => walk!(2, |v: f64| (v.round_ties_even() as i16).to_le_bytes()),
        DType::I8 => walk!(1, |v: f64| (v.round_ties_even() as i8).to_le_bytes()),
        DType::U8 => walk!(1, |v: f64| [v.round_ties_even() as u8]),
        DType::Bool => walk!(1, |v: f64| [u8::from(v != 0.0)]),
    }
}

#[inline]
fn to_f32(value: f64, overflow: Overflow) -> f32 {
    let rounded = value as f32;
    if rounded.is_infinite() && value.is_finite() && overflow == Overflow::Saturate {
        f32::MAX.copysign(rounded)
    } else {
        rounded
    }
}

/// Converts integers exactly into an integer or boolean type, or rounds them into a float type.
///
/// # Errors
/// A length mismatch, or an integer outside the range of the type.
pub fn encode_i64(dtype: DType, values: &[i64], bytes: &mut [u8]) -> Result<(), CodecError> {
    if Some(bytes.len()) != values.len().checked_mul(dtype.size()) {
        return Err(CodecError::Length {
            bytes: bytes.len(),
            expected: Expected::Elements(values.len()),
            dtype,
        });
    }
    let (lo, hi) = integer_range(dtype);
    if let Some(index) = values.iter().position(|v| !(lo..=hi).contains(v)) {
        return Err(CodecError::Range { index, value: values[index], dtype });
    }
    put_i64(dtype, values, bytes);
    Ok(())
}

/// [`encode_i64`] over the elements that both sides have, without a range check.
#[inline]
pub(crate) fn put_i64(dtype: DType, values: &[i64], bytes: &mut [u8]) {
    macro_rules! walk {
        ($n:literal, $bytes:expr) => {
            bytes.chunks_exact_mut($n).zip(values).for_each(|(c, &v)| c.copy_from_slice(&$bytes(v)))
        };
    }
    match dtype {
        DType::I64 => walk!(8, i64::to_le_bytes),
        DType::I32 => walk!(4, |v| (v as i32).to_le_bytes()),
        DType::I16 => walk!(2, |v| (v as i16).to_le_bytes()),
        DType::I8 => walk!(1, |v| (v as i8).to_le_bytes()),
        DType::U8 | DType::Bool => walk!(1, |v| [v as u8]),
        DType::F64 => walk!(8, |v| (v as f64).to_le_bytes()),
        _ => {
            let size = dtype.size();
            for (c, &v) in bytes.chunks_exact_mut(size).zip(values) {
                put(dtype, &[v as f64], c, Overflow::Saturate);
            }
        }
    }
}

/// Smallest and largest integer that an integer or boolean type holds; everything for float types.
#[must_use]
pub const fn integer_range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::I32 => (i32::MIN as i64, i32::MAX as i64),
        DType::I16 => (i16::MIN as i64, i16::MAX as i64),
        DType::I8 => (i8::MIN as i64, i8::MAX as i64),
        DType::U8 => (0, u8::MAX as i64),
        DType::Bool => (0, 1),
        _ => (i64::MIN, i64::MAX),
    }
}

/// `value` as the type would hold it (saturating); what a result rounded to this type looks like.
#[must_use]
pub fn round_to(dtype: DType, value: f64) -> f64 {
    let mut bytes = [0u8; 8];
    let bytes = &mut bytes[..dtype.size()];
    put(dtype, &[value], bytes, Overflow::Saturate);
    read(dtype, bytes, 0).unwrap_or(value)
}

/// Smallest positive value of a float type; 0 for integers.
#[must_use]
pub const fn smallest_subnormal(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(1),
        DType::F32 => f32::from_bits(1) as f64,
        DType::F16 => F16.decode(1),
        DType::Bf16 => BF16.decode(1),
        DType::F8E4m3 => E4M3.decode(1),
        DType::F8E5m2 => E5M2.decode(1),
        _ => 0.0,
    }
}
