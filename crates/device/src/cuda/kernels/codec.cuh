// Bits of an element <-> double, as `numerics::codec`: round to nearest even, saturating.
#pragma once
#include "base.cuh"

// A finite double as a format of `eb` exponent and `mb` mantissa bits; `top` is its largest finite pattern.
KS_FN u64 ks_encode_small(double value, int eb, int mb, u64 top) {
    u64 bits = ks_bits_of(value);
    u64 sign = (bits >> 63) << (eb + mb);
    u64 magnitude = bits & 0x7FFFFFFFFFFFFFFFull;
    int field = (int)(magnitude >> 52);
    if (field == 0) return sign;
    u64 significand = (magnitude & 0xFFFFFFFFFFFFFull) | 1ull << 52;
    int above = field - 1023 - (1 - ((1 << (eb - 1)) - 1));
    int shift = above >= 0 ? 52 - mb : 52 - mb - above;
    u64 from = above >= 0 ? (u64)above << mb : 0;
    if (shift >= 54) return sign;
    u64 half_down = (1ull << (shift - 1)) - 1;
    u64 rounded = from + ((significand + half_down + (significand >> shift & 1)) >> shift);
    return sign | (rounded > top ? top : rounded);
}

// The bits of a float element nearest to a finite `value`.
KS_FN u64 ks_encode(u32 dtype, double value) {
    switch (dtype) {
    case KS_F64: return ks_bits_of(value);
    case KS_F32: {
        u32 b = ks_bits_of_float((float)value);
        // A finite value never becomes infinite.
        return (b & 0x7FFFFFFFu) == 0x7F800000u ? b - 1 : b;
    }
    case KS_F16: return ks_encode_small(value, 5, 10, 0x7BFF);
    case KS_BF16: return ks_encode_small(value, 8, 7, 0x7F7F);
    case KS_E4M3: return ks_encode_small(value, 4, 3, 0x7E);
    case KS_E5M2: return ks_encode_small(value, 5, 2, 0x7B);
    default: return 0;
    }
}

KS_FN float ks_decode_f16(u32 b) {
    u32 sign = (b & 0x8000) << 16, field = b >> 10 & 31, mantissa = b & 0x3FF;
    if (field == 31) return ks_float(sign | 0x7F800000u | mantissa << 13);
    if (field == 0) return ks_float(sign | ks_bits_of_float((float)mantissa * (1.0f / 16777216.0f)));
    return ks_float(sign | (field + 112) << 23 | mantissa << 13);
}
KS_FN float ks_decode_e4m3(u32 b) {
    u32 sign = (b & 0x80) << 24, field = b >> 3 & 15, mantissa = b & 7;
    if ((b & 0x7F) == 0x7F) return ks_float(sign | 0x7FC00000u);
    if (field == 0) return ks_float(sign | ks_bits_of_float((float)mantissa * (1.0f / 512.0f)));
    return ks_float(sign | (field + 120) << 23 | mantissa << 20);
}
KS_FN float ks_decode_e5m2(u32 b) { return ks_decode_f16(b << 8); }

// The value of an element's bits. 64-bit integers beyond 2^53 round.
KS_FN double ks_decode(u32 dtype, u64 bits) {
    switch (dtype) {
    case KS_F64: return ks_double(bits);
    case KS_F32: return (double)ks_float((u32)bits);
    case KS_F16: return (double)ks_decode_f16((u32)bits & 0xFFFF);
    case KS_BF16: return (double)ks_float((u32)bits << 16);
    case KS_E4M3: return (double)ks_decode_e4m3((u32)bits & 0xFF);
    case KS_E5M2: return (double)ks_decode_e5m2((u32)bits & 0xFF);
    case KS_I64: return (double)(i64)bits;
    case KS_I32: return (double)(int)bits;
    case KS_I16: return (double)(short)bits;
    case KS_I8: return (double)(signed char)bits;
    default: return (double)(u32)(bits & 0xFF);
    }
}
