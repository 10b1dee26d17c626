//! Binary floating-point formats of at most 16 bits, bit by bit.
//!
//! One description per format drives both directions, so that a rounding rule exists once. All arithmetic is
//! on integers or exact in `f64` (every value of these formats is an `f64`).

/// What happens to a finite value that rounds beyond the largest finite one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// It becomes the largest finite value of its sign.
    Saturate,
    /// It becomes infinite, or NaN in a format without infinities.
    Ieee,
}

/// A format: sign bit, exponent field, mantissa field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The all-ones exponent is an ordinary one and only the all-ones pattern is NaN (E4M3 "FN").
    finite_only: bool,
}

pub(crate) const F16: Format = Format { exponent_bits: 5, mantissa_bits: 10, finite_only: false };
pub(crate) const BF16: Format = Format { exponent_bits: 8, mantissa_bits: 7, finite_only: false };
pub(crate) const E4M3: Format = Format { exponent_bits: 4, mantissa_bits: 3, finite_only: true };
pub(crate) const E5M2: Format = Format { exponent_bits: 5, mantissa_bits: 2, finite_only: false };

/// Every value of E4M3, by its byte.
pub(crate) static E4M3_VALUES: [f64; 256] = table(E4M3);
/// Every value of E5M2, by its byte.
pub(crate) static E5M2_VALUES: [f64; 256] = table(E5M2);

const fn table(format: Format) -> [f64; 256] {
    let mut values = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        values[bits] = format.decode(bits as u32);
        bits += 1;
    }
    values
}

/// `2^exponent` for exponents of normal `f64`.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    const fn exponent_mask(self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    /// Bits of the largest finite magnitude.
    const fn largest(self) -> u32 {
        let special = self.exponent_mask() << self.mantissa_bits;
        if self.finite_only { (special | ((1 << self.mantissa_bits) - 1)) - 1 } else { special - 1 }
    }

    const fn overflowed(self) -> u32 {
        // Infinity, or the NaN pattern: in both families the first pattern after the largest finite one.
        self.largest() + 1
    }

    const fn nan(self) -> u32 {
        if self.finite_only { self.overflowed() } else { self.overflowed() | (1 << (self.mantissa_bits - 1)) }
    }

    /// The value of a bit pattern, exactly.
    #[inline]
    pub(crate) const fn decode(self, bits: u32) -> f64 {
        let magnitude = bits & (self.sign_bit() - 1);
        let mantissa = (magnitude & ((1 << self.mantissa_bits) - 1)) as u64;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let value = if magnitude > self.largest() {
            if !self.finite_only && mantissa == 0 { f64::INFINITY } else { f64::NAN }
        } else if exponent == 0 {
            mantissa as f64 * power_of_two(1 - self.bias() - self.mantissa_bits as i32)
        } else {
            let field = (exponent - self.bias() + 1023) as u64;
            f64::from_bits((field << 52) | (mantissa << (52 - self.mantissa_bits)))
        };
        if bits & self.sign_bit() != 0 { -value } else { value }
    }

    /// Rounds to nearest, ties to even. An infinity stays one where the format has infinities.
    #[inline(always)]
    pub(crate) const fn encode(self, value: f64, overflow: Overflow) -> u32 {
        let bits = value.to_bits();
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let magnitude = bits & (u64::MAX >> 1);
        let field = (magnitude >> 52) as i32;
        if field == 0x7ff {
            let special = if value.is_nan() {
                self.nan()
            } else if self.finite_only && matches!(overflow, Overflow::Saturate) {
                self.largest()
            } else {
                self.overflowed()
            };
            return sign | special;
        }
        if field == 0 {
            // Zeros and subnormal f64 lie far below half of any format's smallest value.
            return sign;
        }
        let significand = (magnitude & ((1 << 52) - 1)) | (1 << 52);
        let above_least = field - 1023 - (1 - self.bias());
        let (shift, base) = if above_least >= 0 {
            (52 - self.mantissa_bits, (above_least as u64) << self.mantissa_bits)
        } else {
            (52 - self.mantissa_bits + above_least.unsigned_abs(), 0)
        };
        if shift >= 54 {
            return sign;
        }
        // Adding half of what is dropped, less one when the kept part is even, rounds to nearest even without
        // a branch that random data would mispredict. A carry out of the mantissa lands in the exponent field,
        // which is the right result.
        let half_down = (1u64 << (shift - 1)) - 1;
        let rounded = base + ((significand + half_down + (significand >> shift & 1)) >> shift);
        if rounded > self.largest() as u64 {
            return sign
                | if matches!(overflow, Overflow::Saturate) { self.largest() } else { self.overflowed() };
        }
        sign | rounded as u32
    }
}
