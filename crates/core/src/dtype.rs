//! Element types of the call contract.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type that a tensor of the call contract may have. The discriminants are the values of
/// `ks_tensor.dtype` in the generated header and never change meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i32)]
pub enum DType {
    /// IEEE binary64.
    F64 = 1,
    /// IEEE binary32.
    F32 = 2,
    /// IEEE binary16.
    F16 = 3,
    /// bfloat16: the upper half of a binary32.
    Bf16 = 4,
    /// OCP FP8 E4M3 (the "FN" form: no infinities, NaN is `S.1111.111`, largest finite 448).
    F8E4m3 = 5,
    /// OCP FP8 E5M2 (IEEE-like: infinities and NaNs, largest finite 57344).
    F8E5m2 = 6,
    /// Signed 64-bit integer.
    I64 = 7,
    /// Signed 32-bit integer.
    I32 = 8,
    /// Signed 16-bit integer.
    I16 = 9,
    /// Signed 8-bit integer.
    I8 = 10,
    /// Unsigned 8-bit integer.
    U8 = 11,
    /// One byte, 0 or 1.
    Bool = 12,
}

impl DType {
    /// Every element type, in the order of its code.
    pub const ALL: [Self; 12] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::F8E4m3,
        Self::F8E5m2,
        Self::I64,
        Self::I32,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::Bool,
    ];

    /// Size of one element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::F8E4m3 | Self::F8E5m2 | Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Whether values are rounded reals (compared with a tolerance) rather than exact integers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16 | Self::F8E4m3 | Self::F8E5m2)
    }

    /// Distance between 1 and the next larger value; 0 for integers.
    #[must_use]
    pub const fn epsilon(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON,
            Self::F32 => f32::EPSILON as f64,
            Self::F16 => 1.0 / 1024.0,
            Self::Bf16 => 1.0 / 128.0,
            Self::F8E4m3 => 1.0 / 8.0,
            Self::F8E5m2 => 1.0 / 4.0,
            _ => 0.0,
        }
    }

    /// Largest finite value of a float type; the largest value of an integer type.
    #[must_use]
    pub const fn max_finite(self) -> f64 {
        match self {
            Self::F64 => f64::MAX,
            Self::F32 => f32::MAX as f64,
            Self::F16 => 65504.0,
            Self::Bf16 => 3.389_531_389_251_535_5e38,
            Self::F8E4m3 => 448.0,
            Self::F8E5m2 => 57344.0,
            Self::I64 => i64::MAX as f64,
            Self::I32 => i32::MAX as f64,
            Self::I16 => i16::MAX as f64,
            Self::I8 => i8::MAX as f64,
            Self::U8 => u8::MAX as f64,
            Self::Bool => 1.0,
        }
    }

    /// The name used in problem files and in the header's `KS_…` constants (upper-cased there).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8E4m3 => "f8e4m3",
            Self::F8E5m2 => "f8e5m2",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// The type with this name, as [`DType::name`] spells it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The type with this `ks_tensor.dtype` code.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|d| *d as i32 == code)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for d in DType::ALL {
            assert_eq!(DType::from_name(d.name()), Some(d));
            assert_eq!(DType::from_code(d as i32), Some(d));
            let json = serde_json::to_string(&d).unwrap();
            assert_eq!(serde_json::from_str::<DType>(&json).unwrap(), d);
        }
        assert_eq!(DType::from_name("fp8"), None);
        assert_eq!(DType::from_code(0), None);
    }
}
