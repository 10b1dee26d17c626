// Poison, canaries, fingerprints and differences of byte ranges: the twins of `numerics::poison` and
// `numerics::fingerprint`.
#pragma once
#include "random.cuh"
#include "view.cuh"

// One range of a list. 4 words, as `Range::words` writes them.
struct ks_range {
    u64 address;
    u64 bytes;
    u64 seed;
    u64 dtype;
};

// The poison of element `index`, in the low bytes.
KS_FN u64 ks_poison(u32 dtype, u64 seed, u64 index) {
    u64 random = ks_mix(seed ^ (index + 1) * KS_STEP);
    switch (dtype) {
    case KS_F64: return random | 0x7FF8000000000001ull;
    case KS_F32: return (random | 0x7FC00001ull) & 0xFFFFFFFFull;
    case KS_F16: return (random | 0x7E01ull) & 0xFFFFull;
    case KS_BF16: return (random | 0x7FC1ull) & 0xFFFFull;
    case KS_E4M3: return (random | 0x7Full) & 0xFFull;
    case KS_E5M2: return (random & 0x80) | (0x7D + (u32)(random & 0xFF) % 3);
    case KS_I64: return random >> 16 | 1ull << 63;
    case KS_I32: return (random & 0xFFFFFFull) | 1ull << 31;
    case KS_I16: return (random & 0xFFull) | 1ull << 15;
    case KS_BOOL: return (random | 0x80ull) & 0xFFull;
    default: return random & 0xFFull;
    }
}

// Eight bytes of poison, elements [word * 8 / size ..).
KS_FN u64 ks_poison_word(u32 dtype, u32 size, u64 seed, u64 word) {
    u64 value = 0, index = word * (8 / size);
    KS_ROLLED
    for (u32 at = 0; at < 64; at += 8 * size) value |= ks_poison(dtype, seed, index++) << at;
    return value;
}

KS_FN void ks_poison_fill(const ks_range &r, u64 thread, u64 threads) {
    u32 dtype = (u32)r.dtype, size = ks_size(dtype);
    u64 words = (r.bytes + 7) / 8, done = 0;
    if ((r.address & 15) == 0) {
        u64 pairs = r.bytes / 16;
        KS_ROLLED
        for (u64 c = thread; c < pairs; c += threads) {
            ks_pair pair = {ks_poison_word(dtype, size, r.seed, 2 * c), ks_poison_word(dtype, size, r.seed, 2 * c + 1)};
            ks_store_pair(r.address + 16 * c, pair);
        }
        done = 2 * pairs;
    }
    KS_ROLLED
    for (u64 w = done + thread; w < words; w += threads)
        ks_put_word(r.address, r.bytes, w, ks_poison_word(dtype, size, r.seed, w));
}

// Whole elements among `count` bytes of `value` that are those of `expected`.
KS_FN u32 ks_equal_elements(u64 value, u64 expected, u32 size, u32 count) {
    u64 differ = value ^ expected;
    u32 equal = 0;
    KS_ROLLED
    for (u32 k = 0; k + size <= count; k += size) equal += (differ >> (8 * k) & ks_mask(size)) == 0;
    return equal;
}

KS_FN u64 ks_poison_left(const ks_range &r, u64 thread, u64 threads) {
    u32 dtype = (u32)r.dtype, size = ks_size(dtype);
    u64 words = (r.bytes + 7) / 8, done = 0, left = 0;
    if ((r.address & 15) == 0) {
        u64 pairs = r.bytes / 16;
        KS_ROLLED
        for (u64 c = thread; c < pairs; c += threads) {
            ks_pair pair = ks_load_pair(r.address + 16 * c);
            left += ks_equal_elements(pair.x, ks_poison_word(dtype, size, r.seed, 2 * c), size, 8);
            left += ks_equal_elements(pair.y, ks_poison_word(dtype, size, r.seed, 2 * c + 1), size, 8);
        }
        done = 2 * pairs;
    }
    KS_ROLLED
    for (u64 w = done + thread; w < words; w += threads) {
        u32 count = r.bytes - 8 * w < 8 ? (u32)(r.bytes - 8 * w) : 8;
        left += ks_equal_elements(ks_word(r.address, r.bytes, w), ks_poison_word(dtype, size, r.seed, w), size, count);
    }
    return left;
}

// The eight canary bytes at offset 8 * word.
KS_FN u64 ks_canary(u64 seed, u64 word) { return ks_mix(~seed ^ (word + 1) * KS_STEP); }

KS_FN void ks_canary_fill(const ks_range &r, u64 thread, u64 threads) {
    KS_ROLLED
    for (u64 w = thread; 8 * w < r.bytes; w += threads) ks_put_word(r.address, r.bytes, w, ks_canary(r.seed, w));
}

// First byte that this thread finds changed, or KS_NONE.
KS_FN u64 ks_canary_check(const ks_range &r, u64 thread, u64 threads) {
    KS_ROLLED
    for (u64 w = thread; 8 * w < r.bytes; w += threads) {
        u64 left = r.bytes - 8 * w;
        u64 differ = (ks_word(r.address, r.bytes, w) ^ ks_canary(r.seed, w)) & ks_mask(left < 8 ? (u32)left : 8);
        if (differ != 0) {
            u32 at = 0;
            while ((differ & 0xFF) == 0) { differ >>= 8; at++; }
            return 8 * w + at;
        }
    }
    return KS_NONE;
}

// A fingerprint before the length goes in. Addition commutes, so any order gives the same.
struct ks_print { u64 sum, product; };

// Word `index` of a range under a key. The mask of a place is secret with the key: neither another value nor another
// place for the same value can be chosen to cancel.
KS_FN void ks_print_word(ks_print &f, u64 key, u64 index, u64 word) {
    u64 mask = ks_mix(key + (index + 1) * KS_STEP);
    u64 mixed = ks_mix(word ^ mask);
    f.sum += mixed;
    f.product += (mixed >> 32 | mixed << 32) * (mask | 1);
}

KS_FN ks_print ks_print_range(const ks_range &r, u64 thread, u64 threads) {
    ks_print f = {0, 0};
    u64 words = (r.bytes + 7) / 8, done = 0;
    if ((r.address & 15) == 0) {
        u64 pairs = r.bytes / 16, c = thread;
        // Four loads under way at once.
        KS_ROLLED
        for (; c + 3 * threads < pairs; c += 4 * threads) {
            const ks_pair *p = ks_global<const ks_pair>(r.address);
            ks_pair a = p[c], b = p[c + threads], d = p[c + 2 * threads], e = p[c + 3 * threads];
            ks_print_word(f, r.seed, 2 * c, a.x);
            ks_print_word(f, r.seed, 2 * c + 1, a.y);
            ks_print_word(f, r.seed, 2 * (c + threads), b.x);
            ks_print_word(f, r.seed, 2 * (c + threads) + 1, b.y);
            ks_print_word(f, r.seed, 2 * (c + 2 * threads), d.x);
            ks_print_word(f, r.seed, 2 * (c + 2 * threads) + 1, d.y);
            ks_print_word(f, r.seed, 2 * (c + 3 * threads), e.x);
            ks_print_word(f, r.seed, 2 * (c + 3 * threads) + 1, e.y);
        }
        KS_ROLLED
        for (; c < pairs; c += threads) {
            ks_pair pair = ks_load_pair(r.address + 16 * c);
            ks_print_word(f, r.seed, 2 * c, pair.x);
            ks_print_word(f, r.seed, 2 * c + 1, pair.y);
        }
        done = 2 * pairs;
    }
    KS_ROLLED
    for (u64 w = done + thread; w < words; w += threads)
        ks_print_word(f, r.seed, w, ks_word(r.address, r.bytes, w));
    return f;
}

// Elements of two dense buffers that differ: how many, and the first.
struct ks_difference { u64 count, first; };

KS_FN void ks_differ_word(ks_difference &d, u64 a, u64 b, u32 size, u64 element, u32 bytes) {
    u64 differ = a ^ b;
    if (differ == 0) return;
    KS_ROLLED
    for (u32 k = 0; k + size <= bytes; k += size, element++) {
        if ((differ >> (8 * k) & ks_mask(size)) != 0) {
            d.count++;
            d.first = ks_least(d.first, element);
        }
    }
}

KS_FN ks_difference ks_differ(u64 a, u64 b, u64 bytes, u32 size, u64 thread, u64 threads) {
    ks_difference d = {0, KS_NONE};
    u64 words = (bytes + 7) / 8, done = 0, per = 8 / size;
    if (((a | b) & 15) == 0) {
        u64 pairs = bytes / 16;
        KS_ROLLED
        for (u64 c = thread; c < pairs; c += threads) {
            ks_pair x = ks_load_pair(a + 16 * c), y = ks_load_pair(b + 16 * c);
            ks_differ_word(d, x.x, y.x, size, 2 * c * per, 8);
            ks_differ_word(d, x.y, y.y, size, (2 * c + 1) * per, 8);
        }
        done = 2 * pairs;
    }
    KS_ROLLED
    for (u64 w = done + thread; w < words; w += threads) {
        u32 left = bytes - 8 * w < 8 ? (u32)(bytes - 8 * w) : 8;
        ks_differ_word(d, ks_word(a, bytes, w), ks_word(b, bytes, w), size, w * per, left);
    }
    return d;
}
