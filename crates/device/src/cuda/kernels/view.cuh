// Strided views, and moving between them and dense elements.
#pragma once
#include "base.cuh"

// The elements of a tensor that exist once, in logical order. 29 words, as `Placement::words` writes them.
struct ks_view {
    u64 base;       // address of the storage
    i64 offset;     // its first element, in elements
    u64 count;      // elements
    u64 rank;       // axes in use; the last one is innermost
    u64 first;      // logical index of the element at all-zero positions
    u64 extent[8];
    i64 stride[8];  // in elements of the storage
    u64 step[8];    // in logical indices
};

struct ks_place { i64 at; u64 logical; };

// Where element number `number` of a view lies.
KS_FN ks_place ks_locate(const ks_view &v, u64 number) {
    ks_place p = {v.offset, v.first};
    if (v.rank == 1) {
        p.at += (i64)number * v.stride[0];
        p.logical += number * v.step[0];
        return p;
    }
    KS_UNROLLED
    for (int axis = 7; axis >= 0; axis--) {
        if (axis < (int)v.rank) {
            u64 extent = v.extent[axis], rest;
            // Almost every number fits 32 bits, where a division costs a fifth.
            if ((number | extent) >> 32 == 0) rest = (u32)number / (u32)extent;
            else rest = number / extent;
            u64 index = number - rest * extent;
            p.at += (i64)index * v.stride[axis];
            p.logical += index * v.step[axis];
            number = rest;
        }
    }
    return p;
}

// Whether every 16 bytes' worth of consecutive elements lies in 16 aligned bytes, in logical order.
KS_FN bool ks_wide(const ks_view &v, u32 size) {
    u64 per = 16 / size;
    if (v.rank == 0) return false;
    u64 last = v.rank - 1;
    bool wide = v.stride[last] == 1 && v.step[last] == 1 && ((v.base + (u64)v.offset * size) & 15) == 0;
    // One axis may end anywhere: the remainder is done by element.
    if (v.rank == 1) return wide;
    wide = wide && v.extent[last] % per == 0;
    for (u64 axis = 0; axis < last; axis++) wide = wide && (v.stride[axis] * (i64)size & 15) == 0;
    return wide;
}

KS_FN u64 ks_at(const ks_view &v, i64 at, u32 size) { return v.base + (u64)(at * (i64)size); }

// The units that a view is worked on in: 16 bytes where they lie together, then single elements.
struct ks_units {
    u64 whole;  // units of 16 bytes
    u64 per;    // elements of one
    u64 count;  // units of both kinds
};

KS_FN ks_units ks_units_of(const ks_view &v, u32 size, bool wide) {
    ks_units u = {0, 16 / size, v.count};
    if (wide && ks_wide(v, size)) {
        u.whole = v.count / u.per;
        u.count = u.whole + v.count % u.per;
    }
    return u;
}
// First element of a unit.
KS_FN u64 ks_unit_start(const ks_units &u, u64 unit) { return unit < u.whole ? unit * u.per : unit + u.whole * (u.per - 1); }

// Elements of a view to a dense buffer in logical order.
KS_FN void ks_gather(const ks_view &v, u64 dense, u32 size, u64 thread, u64 threads) {
    ks_units u = ks_units_of(v, size, (dense & 15) == 0);
    KS_ROLLED
    for (u64 unit = thread; unit < u.count; unit += threads) {
        u64 n = ks_unit_start(u, unit);
        u64 at = ks_at(v, ks_locate(v, n).at, size), to = dense + n * size;
        if (unit < u.whole) ks_store_pair(to, ks_load_pair(at));
        else ks_store(to, size, ks_load(at, size));
    }
}

// And back. Where several logical elements share a place, the view names the last of them.
KS_FN void ks_scatter(const ks_view &v, u64 dense, u32 size, u64 thread, u64 threads) {
    ks_units u = ks_units_of(v, size, (dense & 15) == 0 && v.first == 0);
    KS_ROLLED
    for (u64 unit = thread; unit < u.count; unit += threads) {
        ks_place p = ks_locate(v, ks_unit_start(u, unit));
        u64 at = ks_at(v, p.at, size);
        u64 from = dense + p.logical * size;
        // Logical elements need not be consecutive units of the dense buffer where axes are left out.
        if (unit < u.whole && (from & 15) == 0) {
            ks_store_pair(at, ks_load_pair(from));
            continue;
        }
        u64 count = unit < u.whole ? u.per : 1;
        for (u64 k = 0; k < count; k++) ks_store(at + k * size, size, ks_load(from + k * size, size));
    }
}

// Every element of a view set to the same bits.
KS_FN void ks_set(const ks_view &v, u64 bits, u32 size, u64 thread, u64 threads) {
    u64 word = bits & ks_mask(size);
    for (u32 s = size; s < 8; s *= 2) word |= word << (8 * s);
    ks_pair pair = {word, word};
    ks_units u = ks_units_of(v, size, true);
    KS_ROLLED
    for (u64 unit = thread; unit < u.count; unit += threads) {
        u64 at = ks_at(v, ks_locate(v, ks_unit_start(u, unit)).at, size);
        if (unit < u.whole) ks_store_pair(at, pair);
        else ks_store(at, size, bits);
    }
}

// Logical elements [start, start + length) of a pair, set to the same bits. One block takes a pair.
KS_FN void ks_set_range(const ks_view &v, const u64 *pair, u64 bits, u32 size, u64 thread, u64 threads) {
    KS_ROLLED
    for (u64 n = thread; n < pair[1]; n += threads)
        ks_store(ks_at(v, ks_locate(v, pair[0] + n).at, size), size, bits);
}
