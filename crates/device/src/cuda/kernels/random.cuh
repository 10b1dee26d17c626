// Counter-based random numbers: stream `ks-counter-1`, the twin of `numerics::content::counter`.
#pragma once
#include "base.cuh"

#define KS_STEP 0x9E3779B97F4A7C15ull

KS_FN u64 ks_mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Word `counter` of the stream with a key of 128 bits.
KS_FN u64 ks_bits(u64 key0, u64 key1, u64 counter) { return ks_mix(ks_mix(key0 ^ counter * KS_STEP) + key1); }

// A number below `bound`; a number in [0, 1) with 53 bits.
KS_FN u64 ks_below(u64 bits, u64 bound) { return ks_high(bits, bound); }
KS_FN double ks_unit(u64 bits) { return (double)(bits >> 11) * (1.0 / 9007199254740992.0); }

// One cell of the table of `numerics::normal`: 32 octaves of 64 cells.
struct __attribute__((aligned(16))) ks_cell { double base, slope; };

KS_FN double ks_normal_cell(const ks_cell *table, u32 octave, u32 cell, double fraction, u64 sign) {
    ks_cell c = table[octave * 64 + cell];
    double x = c.base + c.slope * fraction;
    return ks_double(ks_bits_of(x) ^ sign << 63);
}

KS_FN double ks_normal_narrow(const ks_cell *table, u32 bits) {
    u32 w = bits << 1 | 1;
    u32 octave = ks_leading_zeros(w);
    u32 rest = (w << octave) << 1;
    double fraction = (double)(rest << 6) * (1.0 / 4294967296.0);
    return ks_normal_cell(table, octave, rest >> 26, fraction, bits >> 31);
}

KS_FN double ks_normal_wide(const ks_cell *table, u64 bits) {
    u64 w = bits << 1 | 1;
    u32 octave = ks_leading_zeros64(w);
    octave = octave < 31 ? octave : 31;
    u64 rest = (w << octave) << 1;
    double fraction = (double)(rest << 6) * (1.0 / 18446744073709551616.0);
    return ks_normal_cell(table, octave, (u32)(rest >> 58), fraction, bits >> 63);
}
