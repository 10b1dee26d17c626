// Contents of float tensors: the twin of `numerics::content::counter`.
#pragma once
#include "codec.cuh"
#include "random.cuh"
#include "view.cuh"

enum { KS_NORMAL = 0, KS_UNIFORM = 1 };
enum {
    KS_NOMINAL = 0, KS_SCALED, KS_OUTLIERS, KS_ROWS, KS_RUNS, KS_RAMPS, KS_CLUSTERS, KS_SPARSE, KS_EXTREMES
};

// How one tensor's values are made. 16 words, as `Plan::words` writes them; the doubles' names depend on the family.
struct ks_plan {
    u64 key0, key1;    // of the values
    u64 pick0, pick1;  // of the choices of a stress family
    u64 base;          // KS_NORMAL, KS_UNIFORM
    u64 family;
    u64 len;           // elements
    u64 wide;          // 64 bits a draw instead of 32
    double a, b;       // mean and deviation; lower bound and span
    double last;       // largest value that may be drawn
    u64 n0, n1;
    double p0, p1, p2;
};

// Nominal value from 32 or 64 random bits.
KS_FN double ks_shape_narrow(const ks_plan &p, const ks_cell *table, u32 bits) {
    if (p.base == KS_NORMAL) return p.a + p.b * ks_normal_narrow(table, bits);
    double x = p.a + p.b * ((double)bits * (1.0 / 4294967296.0));
    return x < p.last ? x : p.last;
}
KS_FN double ks_shape_wide(const ks_plan &p, const ks_cell *table, u64 bits) {
    if (p.base == KS_NORMAL) return p.a + p.b * ks_normal_wide(table, bits);
    double x = p.a + p.b * ks_unit(bits);
    return x < p.last ? x : p.last;
}

// Nominal draw number `i`: two narrow ones share 64 bits.
KS_FN double ks_draw(const ks_plan &p, const ks_cell *table, u64 i) {
    if (p.wide) return ks_shape_wide(p, table, ks_bits(p.key0, p.key1, i));
    return ks_shape_narrow(p, table, (u32)(ks_bits(p.key0, p.key1, i >> 1) >> (i & 1 ? 32 : 0)));
}

KS_FN u64 ks_choice(const ks_plan &p, u64 counter) { return ks_bits(p.pick0, p.pick1, counter); }

// Where in a block of 64 elements a run begins: one place in 32, and at least one in four blocks.
KS_FN u64 ks_run_starts(const ks_plan &p, u64 block) {
    u64 starts = KS_NONE;
    KS_ROLLED
    for (u64 k = 0; k < 5; k++) starts &= ks_choice(p, block * 5 + k);
    return starts | (block % 4 == 0);
}

// The last beginning of a run at or before `i`.
KS_FN u64 ks_run_of(const ks_plan &p, u64 i) {
    u64 block = i / 64;
    u64 starts = ks_run_starts(p, block) & (KS_NONE >> (63 - i % 64));
    while (starts == 0) starts = ks_run_starts(p, --block);
    return block * 64 + 63 - ks_leading_zeros64(starts);
}

// Value `i` of the tensor.
KS_FN double ks_value(const ks_plan &p, const ks_cell *table, u64 i) {
    switch (p.family) {
    case KS_NOMINAL: return ks_draw(p, table, i);
    case KS_SCALED: return ks_draw(p, table, i) * p.p0;
    case KS_OUTLIERS: {
        double x = ks_draw(p, table, i);
        u64 block = i / 1000, start = block * 1000;
        if (i != start + ks_below(ks_choice(p, 2 * block), ks_least(p.len - start, 1000))) return x;
        double factor = p.p1 + p.p2 * ks_unit(ks_choice(p, 2 * block + 1));
        double magnitude = ks_abs(x), most = ks_max(magnitude, p.p0), far = magnitude * factor;
        far = far < most ? far : most;
        return x < 0.0 ? -far : far;
    }
    case KS_ROWS: return ks_draw(p, table, i % p.n0);
    case KS_RUNS: return ks_draw(p, table, ks_run_of(p, i));
    case KS_RAMPS: {
        u64 row = i / p.n0, step = i - row * p.n0;
        double from = ks_draw(p, table, 2 * row), to = ks_draw(p, table, 2 * row + 1);
        return from + (to - from) * ((double)step / (double)(p.n0 > 1 ? p.n0 - 1 : 1));
    }
    case KS_CLUSTERS: return 0.95 * (ks_choice(p, i) >> 63 ? p.p1 : p.p0) + 0.05 * ks_draw(p, table, i);
    case KS_SPARSE: return ks_below(ks_choice(p, i), 10) == 0 ? ks_draw(p, table, i) : p.p0;
    case KS_EXTREMES: {
        u64 pick = i == p.n0 ? 10 : ks_below(ks_choice(p, 2 * i), 100);
        if (pick > 10) return ks_draw(p, table, i);
        u64 bits = ks_choice(p, 2 * i + 1);
        double unit = ks_unit(bits), magnitude = 0.0;
        if (pick == 10) magnitude = p.p0 * (0.5 + 0.5 * unit);
        else if (pick >= 7) magnitude = p.p2 * (1.0 + 15.0 * unit);
        // Half of the tiny ones are denormal, half just above.
        else if (pick >= 5) magnitude = p.p1 * (1.0 + floor(unit * (p.p2 / p.p1 - 1.0)));
        return p.n1 && (bits & 1) ? -magnitude : magnitude;
    }
    default: return 0.0;
    }
}

KS_FN void ks_place_bits(ks_pair &pair, u64 bits, u32 at) {
    if (at < 64) pair.x |= bits << at;
    else pair.y |= bits << (at - 64);
}

// Sixteen bytes of a contiguous tensor, from logical element `i`.
KS_FN ks_pair ks_value_pair(const ks_plan &p, const ks_cell *table, u32 dtype, u32 size, u64 i) {
    ks_pair pair = {0, 0};
    u32 width = 8 * size;
    // Two narrow draws share 64 bits. The first element of 16 bytes is even unless axes are left out.
    if (p.family <= KS_SCALED && !p.wide && size < 8 && (i & 1) == 0) {
        double factor = p.family == KS_SCALED ? p.p0 : 1.0;
        KS_ROLLED
        for (u32 at = 0; at < 128; at += 2 * width, i += 2) {
            u64 bits = ks_bits(p.key0, p.key1, i >> 1);
            u64 low = ks_encode(dtype, ks_shape_narrow(p, table, (u32)bits) * factor);
            u64 high = ks_encode(dtype, ks_shape_narrow(p, table, (u32)(bits >> 32)) * factor);
            ks_place_bits(pair, low | high << width, at);
        }
        return pair;
    }
    KS_ROLLED
    for (u32 at = 0; at < 128; at += width) ks_place_bits(pair, ks_encode(dtype, ks_value(p, table, i++)), at);
    return pair;
}

// Which scale each element of a quantised tensor has. 19 words, as `Groups::words` writes them.
struct ks_groups {
    u64 depth;      // axes up to the last that indexes the scales
    u64 block;      // elements behind them
    u64 count;      // scales
    u64 extent[8];
    u64 stride[8];  // of the group number, 0 for an axis that does not index
};

KS_FN u64 ks_group(const ks_groups &g, u64 i) {
    u64 rest = i / g.block, group = 0;
    KS_UNROLLED
    for (int axis = 7; axis >= 0; axis--) {
        if (axis < (int)g.depth) {
            u64 next = rest / g.extent[axis];
            group += (rest - next * g.extent[axis]) * g.stride[axis];
            rest = next;
        }
    }
    return group;
}

KS_FN void ks_fill_body(const ks_view &v, const ks_plan &p, const ks_cell *table, u32 dtype, u64 thread, u64 threads) {
    u32 size = ks_size(dtype);
    ks_units u = ks_units_of(v, size, true);
    KS_ROLLED
    for (u64 unit = thread; unit < u.count; unit += threads) {
        ks_place place = ks_locate(v, ks_unit_start(u, unit));
        u64 at = ks_at(v, place.at, size);
        if (unit < u.whole) ks_store_pair(at, ks_value_pair(p, table, dtype, size, place.logical));
        else ks_store(at, size, ks_encode(dtype, ks_value(p, table, place.logical)));
    }
}

// The scale that a group with this largest magnitude gets, as its type holds it.
KS_FN double ks_scale_of(u64 amax_bits, double target, u32 scale_dtype) {
    double stored = ks_decode(scale_dtype, ks_encode(scale_dtype, ks_double(amax_bits) / target));
    return stored > 0.0 ? stored : 1.0;
}

// From the largest magnitudes, as bits, to the scales, as bits, in place and in the scale tensor.
KS_FN void ks_scales_body(const ks_view &v, u64 *amax, double target, u32 dtype, u64 thread, u64 threads) {
    u32 size = ks_size(dtype);
    KS_ROLLED
    for (u64 n = thread; n < v.count; n += threads) {
        ks_place place = ks_locate(v, n);
        double scale = ks_scale_of(amax[place.logical], target, dtype);
        amax[place.logical] = ks_bits_of(scale);
        ks_store(ks_at(v, place.at, size), size, ks_encode(dtype, scale));
    }
}

KS_FN void ks_quantise_body(const ks_view &v, const ks_plan &p, const ks_groups &g, const ks_cell *table,
                            const double *scales, u32 dtype, u64 thread, u64 threads) {
    u32 size = ks_size(dtype);
    ks_units u = ks_units_of(v, size, true);
    KS_ROLLED
    for (u64 unit = thread; unit < u.count; unit += threads) {
        ks_place place = ks_locate(v, ks_unit_start(u, unit));
        u64 at = ks_at(v, place.at, size);
        u64 count = unit < u.whole ? u.per : 1, until = 0;
        double scale = 1.0;
        ks_pair pair = {0, 0};
        KS_ROLLED
        for (u64 k = 0; k < count; k++) {
            u64 i = place.logical + k;
            if (i >= until) {
                scale = scales[ks_group(g, i)];
                until = (i / g.block + 1) * g.block;
            }
            ks_place_bits(pair, ks_encode(dtype, ks_value(p, table, i) / scale), 8 * size * (u32)k);
        }
        if (unit < u.whole) ks_store_pair(at, pair);
        else ks_store(at, size, pair.x);
    }
}

// What a mutation redraws. 8 words, as `Mutation::words` writes them.
struct ks_mutation {
    u64 place0, place1;  // key of the choice of places
    u64 forced;          // changed whatever the choice says
    u64 has_unused;      // elements that hold `unused` stay
    u64 unused;
    u64 flat;            // drawn evenly from -reach..reach instead of as the plan says
    double reach;
    u64 reserved;
};

// Tries until a draw differs from what is there; a generator with but one value gives up.
KS_FN bool ks_redraw(const ks_view &v, const ks_plan &p, const ks_mutation &m, const ks_cell *table, u32 dtype,
                     ks_place place) {
    u32 size = ks_size(dtype);
    u64 at = ks_at(v, place.at, size);
    u64 old = ks_load(at, size);
    if (m.has_unused && old == m.unused) return false;
    KS_ROLLED
    for (u64 attempt = 0; attempt < 8; attempt++) {
        u64 bits = ks_bits(p.key0, p.key1, place.logical * 8 + attempt);
        double x;
        if (m.flat) x = (2.0 * ks_unit(bits) - 1.0) * m.reach;
        else if (p.wide) x = ks_shape_wide(p, table, bits);
        else x = ks_shape_narrow(p, table, (u32)(bits >> 32));
        u64 drawn = ks_encode(dtype, x);
        if (drawn != old) {
            ks_store(at, size, drawn);
            return true;
        }
    }
    return false;
}

// Redraws one element in 64. Adds the number changed to `changed`.
KS_FN u64 ks_mutate_body(const ks_view &v, const ks_plan &p, const ks_mutation &m, const ks_cell *table, u32 dtype,
                         u64 thread, u64 threads) {
    u64 changed = 0;
    KS_ROLLED
    for (u64 n = thread; n < v.count; n += threads) {
        ks_place place = ks_locate(v, n);
        u64 chosen = ks_bits(m.place0, m.place1, place.logical);
        if (chosen >> 58 == 0 || n == m.forced) changed += ks_redraw(v, p, m, table, dtype, place);
    }
    return changed;
}

// Where nothing was changed: looks for one element that can be. One thread.
KS_FN u64 ks_mutate_one(const ks_view &v, const ks_plan &p, const ks_mutation &m, const ks_cell *table, u32 dtype) {
    KS_ROLLED
    for (u64 attempt = 0; attempt < 4096; attempt++) {
        u64 n = ks_below(ks_bits(m.place1, m.place0, attempt), v.count);
        if (ks_redraw(v, p, m, table, dtype, ks_locate(v, n))) return 1;
    }
    return 0;
}
