// Errors of one dense output against another: the twin of `numerics::metrics`. Threads gather partial results; blocks
// write theirs, and the host adds them up.
//
// About ten double-precision operations an element: plenty for a data-centre GPU, and at 1/64 of the single-precision
// rate still some 100 G elements/s.
#pragma once
#include "codec.cuh"

// What the reference alone says. 3 words.
struct ks_scale { u64 finite; double squares, max; };

KS_FN ks_scale ks_scale_zero() { ks_scale s = {0, 0.0, 0.0}; return s; }
KS_FN void ks_scale_take(ks_scale &s, double r, double unit) {
    if (!ks_is_finite(r)) return;
    double kept = unit == 1.0 ? r : r / unit;
    s.finite++;
    s.squares += kept * kept;
    s.max = ks_max(s.max, ks_abs(r));
}
KS_FN void ks_scale_merge(ks_scale &s, const ks_scale &o) {
    s.finite += o.finite;
    s.squares += o.squares;
    s.max = ks_max(s.max, o.max);
}
// The unit that squares are taken in: those of very large or very small doubles leave the range.
KS_FN double ks_unit_of(double max) { return max > 0.0 && !(max >= 1e-120 && max < 1e120) ? max : 1.0; }
KS_FN double ks_root_mean(double squares, u64 count, double unit) {
    return count == 0 ? 0.0 : sqrt(squares / (double)count) * unit;
}

// Errors of one class. 5 words.
struct ks_sum { u64 count; double max; u64 worst; double squares, scale; };

// 20 words.
struct ks_errors {
    ks_sum large, medium, small;
    u64 unexpected, mismatched, matched, first, first_matched;
};

// `part`: the reference answered a part; NaN is what it was not asked for.
struct ks_edges { double large, small, per_unit; u32 part; };

KS_FN ks_sum ks_sum_zero() { ks_sum s = {0, 0.0, KS_NONE, 0.0, 0.0}; return s; }
KS_FN ks_errors ks_errors_zero() {
    ks_errors e = {ks_sum_zero(), ks_sum_zero(), ks_sum_zero(), 0, 0, 0, KS_NONE, KS_NONE};
    return e;
}
KS_FN void ks_sum_take(ks_sum &s, double error, double square, double magnitude, u64 i) {
    s.count++;
    s.scale = ks_max(s.scale, magnitude);
    // A thread meets its elements in rising order: the first of equals stays.
    if (error > s.max) { s.max = error; s.worst = i; }
    s.squares += square;
}
KS_FN void ks_errors_take(ks_errors &e, const ks_edges &g, double r, double c, u64 i) {
    double error = ks_abs(c - r);
    if (!ks_is_finite(error)) {
        if (g.part && r != r) return;
        error = ks_double(0x7FF0000000000000ull);
        if (ks_is_finite(r)) {
            if (!ks_is_finite(c)) { e.unexpected++; e.first = ks_least(e.first, i); }
        } else if (r == c || (r != r && c != c)) {
            e.matched++;
            e.first_matched = ks_least(e.first_matched, i);
            return;
        } else {
            e.mismatched++;
            e.first = ks_least(e.first, i);
            return;
        }
    }
    double magnitude = ks_abs(r), scaled = error * g.per_unit, square = scaled * scaled;
    if (magnitude == 0.0 || magnitude < g.small) ks_sum_take(e.small, error, square, magnitude, i);
    else if (magnitude < g.large) ks_sum_take(e.medium, error, square, magnitude, i);
    else ks_sum_take(e.large, error, square, magnitude, i);
}
KS_FN void ks_sum_merge(ks_sum &s, const ks_sum &o) {
    s.count += o.count;
    s.squares += o.squares;
    s.scale = ks_max(s.scale, o.scale);
    if (o.max > s.max || (o.max == s.max && o.worst < s.worst)) { s.max = o.max; s.worst = o.worst; }
}
KS_FN void ks_errors_merge(ks_errors &e, const ks_errors &o) {
    ks_sum_merge(e.large, o.large);
    ks_sum_merge(e.medium, o.medium);
    ks_sum_merge(e.small, o.small);
    e.unexpected += o.unexpected;
    e.mismatched += o.mismatched;
    e.matched += o.matched;
    e.first = ks_least(e.first, o.first);
    e.first_matched = ks_least(e.first_matched, o.first_matched);
}

KS_FN double ks_element(u64 address, u32 dtype, u32 size, u64 i) {
    return ks_decode(dtype, ks_load(address + i * size, size));
}

// Eight bytes' worth of reference.
template <u32 dtype> KS_FN void ks_scale_word(ks_scale &s, u64 word, double unit) {
    const u32 width = 8 * (dtype == KS_F64 ? 8 : dtype == KS_F32 ? 4 : dtype <= KS_BF16 ? 2 : 1);
    KS_UNROLLED_TWICE
    for (u32 at = 0; at < 64; at += width) ks_scale_take(s, ks_decode(dtype, word >> at), unit);
}
template <u32 dtype> KS_FN void ks_scale_pairs(ks_scale &s, u64 address, u64 pairs, double unit, u64 thread, u64 threads) {
    KS_ROLLED
    for (u64 c = thread; c < pairs; c += threads) {
        ks_pair pair = ks_load_pair(address + 16 * c);
        ks_scale_word<dtype>(s, pair.x, unit);
        ks_scale_word<dtype>(s, pair.y, unit);
    }
}

KS_FN ks_scale ks_scale_body(u64 address, u32 dtype, u64 count, double unit, u64 thread, u64 threads) {
    ks_scale s = ks_scale_zero();
    u32 size = ks_size(dtype);
    u64 done = 0;
    if ((address & 15) == 0) {
        u64 pairs = count / (16 / size);
        switch (dtype) {
        case KS_F64: ks_scale_pairs<KS_F64>(s, address, pairs, unit, thread, threads); break;
        case KS_F32: ks_scale_pairs<KS_F32>(s, address, pairs, unit, thread, threads); break;
        case KS_F16: ks_scale_pairs<KS_F16>(s, address, pairs, unit, thread, threads); break;
        case KS_BF16: ks_scale_pairs<KS_BF16>(s, address, pairs, unit, thread, threads); break;
        case KS_E4M3: ks_scale_pairs<KS_E4M3>(s, address, pairs, unit, thread, threads); break;
        default: ks_scale_pairs<KS_E5M2>(s, address, pairs, unit, thread, threads); break;
        }
        done = pairs * (16 / size);
    }
    KS_ROLLED
    for (u64 i = done + thread; i < count; i += threads) ks_scale_take(s, ks_element(address, dtype, size, i), unit);
    return s;
}

template <u32 dtype> KS_FN void ks_errors_word(ks_errors &e, const ks_edges &g, u64 r, u64 c, u64 i) {
    const u32 width = 8 * (dtype == KS_F64 ? 8 : dtype == KS_F32 ? 4 : dtype <= KS_BF16 ? 2 : 1);
    KS_UNROLLED_TWICE
    for (u32 at = 0; at < 64; at += width, i++) ks_errors_take(e, g, ks_decode(dtype, r >> at), ks_decode(dtype, c >> at), i);
}
template <u32 dtype> KS_FN void ks_errors_pairs(ks_errors &e, const ks_edges &g, u64 reference, u64 candidate,
                                                u64 pairs, u64 thread, u64 threads) {
    const u32 per = dtype == KS_F64 ? 1 : dtype == KS_F32 ? 2 : dtype <= KS_BF16 ? 4 : 8;
    KS_ROLLED
    for (u64 at = thread; at < pairs; at += threads) {
        ks_pair r = ks_load_pair(reference + 16 * at), c = ks_load_pair(candidate + 16 * at);
        ks_errors_word<dtype>(e, g, r.x, c.x, 2 * per * at);
        ks_errors_word<dtype>(e, g, r.y, c.y, 2 * per * at + per);
    }
}

KS_FN ks_errors ks_errors_body(u64 reference, u32 reference_dtype, u64 candidate, u32 dtype, u64 count,
                               const ks_edges &g, u64 thread, u64 threads) {
    ks_errors e = ks_errors_zero();
    u32 size = ks_size(dtype), reference_size = ks_size(reference_dtype);
    u64 done = 0;
    if (reference_dtype == dtype && ((reference | candidate) & 15) == 0) {
        u64 pairs = count / (16 / size);
        switch (dtype) {
        case KS_F64: ks_errors_pairs<KS_F64>(e, g, reference, candidate, pairs, thread, threads); break;
        case KS_F32: ks_errors_pairs<KS_F32>(e, g, reference, candidate, pairs, thread, threads); break;
        case KS_F16: ks_errors_pairs<KS_F16>(e, g, reference, candidate, pairs, thread, threads); break;
        case KS_BF16: ks_errors_pairs<KS_BF16>(e, g, reference, candidate, pairs, thread, threads); break;
        case KS_E4M3: ks_errors_pairs<KS_E4M3>(e, g, reference, candidate, pairs, thread, threads); break;
        default: ks_errors_pairs<KS_E5M2>(e, g, reference, candidate, pairs, thread, threads); break;
        }
        done = pairs * (16 / size);
    }
    KS_ROLLED
    for (u64 i = done + thread; i < count; i += threads)
        ks_errors_take(e, g, ks_element(reference, reference_dtype, reference_size, i),
                       ks_element(candidate, dtype, size, i), i);
    return e;
}

// Elements of an integer output that are not the reference's value.
struct ks_mismatch { u64 count, first; };

KS_FN ks_mismatch ks_mismatch_body(u64 reference, u32 reference_dtype, u64 candidate, u32 dtype, u64 count, u64 thread,
                                   u64 threads) {
    ks_mismatch m = {0, KS_NONE};
    u32 size = ks_size(dtype), reference_size = ks_size(reference_dtype);
    KS_ROLLED
    for (u64 i = thread; i < count; i += threads) {
        if (!(ks_element(reference, reference_dtype, reference_size, i) == ks_element(candidate, dtype, size, i))) {
            m.count++;
            m.first = ks_least(m.first, i);
        }
    }
    return m;
}
