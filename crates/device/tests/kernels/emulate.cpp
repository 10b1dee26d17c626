// The element logic of the helper kernels on the CPU. Standard input: words of 64 bits, little-endian: the number of
// buffers; for each its length in bytes and its content, padded to whole words; the number of calls; for each its
// number, its number of words and the words, which are the kernel's arguments one after the other. An address is
// (buffer + 1) << 48 | offset. Standard output: the content of every buffer, padded to whole words.
#include "compare.cuh"
#include "content.cuh"
#include "ranges.cuh"
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

static std::vector<unsigned char *> buffers;
static const u64 *args;

static u64 address(u64 x) { return (u64)(buffers.at((x >> 48) - 1) + (x & 0xFFFFFFFFFFFFull)); }
static u64 word() { return *args++; }
static u64 pointer() { return address(word()); }
template <class T> static T structure() {
    T t;
    memcpy(&t, args, sizeof t);
    args += sizeof t / 8;
    return t;
}
static ks_view view() {
    ks_view v = structure<ks_view>();
    v.base = address(v.base);
    return v;
}
static ks_range range(u64 list, u64 i) {
    ks_range r = ((const ks_range *)list)[i];
    r.address = address(r.address);
    return r;
}

// A small grid with an odd number of threads: every stride and every tail is walked.
static const u64 THREADS = 7;
#define EACH for (u64 t = 0; t < THREADS; t++)

static void layout(u64 *out) {
#define SIZE(type) *out++ = sizeof(type)
#define AT(type, field) *out++ = offsetof(type, field)
    SIZE(ks_view); AT(ks_view, offset); AT(ks_view, count); AT(ks_view, rank); AT(ks_view, first);
    AT(ks_view, extent); AT(ks_view, stride); AT(ks_view, step);
    SIZE(ks_plan); AT(ks_plan, pick0); AT(ks_plan, base); AT(ks_plan, family); AT(ks_plan, len); AT(ks_plan, wide);
    AT(ks_plan, a); AT(ks_plan, last); AT(ks_plan, n0); AT(ks_plan, p0);
    SIZE(ks_groups); AT(ks_groups, block); AT(ks_groups, count); AT(ks_groups, extent); AT(ks_groups, stride);
    SIZE(ks_mutation); AT(ks_mutation, forced); AT(ks_mutation, has_unused); AT(ks_mutation, flat); AT(ks_mutation, reach);
    SIZE(ks_range); AT(ks_range, bytes); AT(ks_range, seed); AT(ks_range, dtype);
    SIZE(ks_cell); SIZE(ks_scale); AT(ks_scale, squares); AT(ks_scale, max);
    SIZE(ks_errors); AT(ks_errors, medium); AT(ks_errors, small); AT(ks_errors, unexpected); AT(ks_errors, first);
    SIZE(ks_sum); AT(ks_sum, max); AT(ks_sum, worst); AT(ks_sum, squares); AT(ks_sum, scale);
}

static void call(u64 number) {
    switch (number) {
    case 1: {
        ks_view v = view(); ks_plan p = structure<ks_plan>(); u64 table = pointer(); u32 dtype = (u32)word();
        EACH ks_fill_body(v, p, (const ks_cell *)table, dtype, t, THREADS);
        break;
    }
    case 2: {
        ks_view v = view(); u64 bits = word(); u32 size = (u32)word();
        EACH ks_set(v, bits, size, t, THREADS);
        break;
    }
    case 3: {
        ks_view v = view(); u64 pairs = pointer(), count = word(), bits = word(); u32 size = (u32)word();
        for (u64 r = 0; r < count; r++) EACH ks_set_range(v, (const u64 *)pairs + 2 * r, bits, size, t, THREADS);
        break;
    }
    case 4: {
        ks_plan p = structure<ks_plan>(); ks_groups g = structure<ks_groups>();
        u64 table = pointer(); u64 *amax = (u64 *)pointer();
        for (u64 i = 0; i < p.len; i++)
            ks_atomic_max(amax + ks_group(g, i), ks_bits_of(ks_abs(ks_value(p, (const ks_cell *)table, i))));
        break;
    }
    case 5: {
        ks_view v = view(); u64 *amax = (u64 *)pointer(); double target = ks_double(word()); u32 dtype = (u32)word();
        EACH ks_scales_body(v, amax, target, dtype, t, THREADS);
        break;
    }
    case 6: {
        ks_view v = view(); ks_plan p = structure<ks_plan>(); ks_groups g = structure<ks_groups>();
        u64 table = pointer(), scales = pointer(); u32 dtype = (u32)word();
        EACH ks_quantise_body(v, p, g, (const ks_cell *)table, (const double *)scales, dtype, t, THREADS);
        break;
    }
    case 7: {
        ks_view v = view(); ks_plan p = structure<ks_plan>(); ks_mutation m = structure<ks_mutation>();
        const ks_cell *table = (const ks_cell *)pointer(); u32 dtype = (u32)word(); u64 *changed = (u64 *)pointer();
        EACH *changed += ks_mutate_body(v, p, m, table, dtype, t, THREADS);
        if (*changed == 0) *changed = ks_mutate_one(v, p, m, table, dtype);
        break;
    }
    case 8: {
        ks_view v = view(); u64 dense = pointer(); u32 size = (u32)word();
        EACH ks_gather(v, dense, size, t, THREADS);
        break;
    }
    case 9: {
        ks_view v = view(); u64 dense = pointer(); u32 size = (u32)word();
        EACH ks_scatter(v, dense, size, t, THREADS);
        break;
    }
    case 10: {
        u64 list = pointer(), count = word();
        for (u64 r = 0; r < count; r++) EACH ks_poison_fill(range(list, r), t, THREADS);
        break;
    }
    case 11: {
        u64 list = pointer(), count = word(); u64 *left = (u64 *)pointer();
        for (u64 r = 0; r < count; r++) EACH left[r] += ks_poison_left(range(list, r), t, THREADS);
        break;
    }
    case 12: {
        u64 list = pointer(), count = word();
        for (u64 r = 0; r < count; r++) EACH ks_canary_fill(range(list, r), t, THREADS);
        break;
    }
    case 13: {
        u64 list = pointer(), count = word(); u64 *found = (u64 *)pointer();
        for (u64 r = 0; r < count; r++)
            EACH {
                u64 at = ks_canary_check(range(list, r), t, THREADS);
                if (at != KS_NONE) ks_atomic_min(found, r << 40 | at);
            }
        break;
    }
    case 14: {
        u64 list = pointer(), count = word(); u64 *prints = (u64 *)pointer();
        for (u64 r = 0; r < count; r++)
            EACH {
                ks_print f = ks_print_range(range(list, r), t, THREADS);
                ks_atomic_add(prints + 2 * r, f.sum);
                ks_atomic_add(prints + 2 * r + 1, f.product);
            }
        break;
    }
    case 15: {
        u64 a = pointer(), b = pointer(), bytes = word(); u32 size = (u32)word(); u64 *result = (u64 *)pointer();
        EACH {
            ks_difference d = ks_differ(a, b, bytes, size, t, THREADS);
            ks_atomic_add(result, d.count);
            ks_atomic_min(result + 1, d.first);
        }
        break;
    }
    case 16: {
        u64 reference = pointer(); u32 reference_dtype = (u32)word(); u64 candidate = pointer(); u32 dtype = (u32)word();
        u64 count = word(); u64 *result = (u64 *)pointer();
        EACH {
            ks_mismatch m = ks_mismatch_body(reference, reference_dtype, candidate, dtype, count, t, THREADS);
            ks_atomic_add(result, m.count);
            ks_atomic_min(result + 1, m.first);
        }
        break;
    }
    // A comparison: each thread stands for a block. Scales, scales again, errors, one after the other.
    case 17: {
        u64 reference = pointer(); u32 reference_dtype = (u32)word(); u64 candidate = pointer(); u32 dtype = (u32)word();
        u64 count = word(); u64 out = pointer(); u32 part = (u32)word();
        ks_scale *scale = (ks_scale *)out, *again = scale + THREADS;
        ks_errors *errors = (ks_errors *)(again + THREADS);
        ks_scale first = ks_scale_zero(), total = ks_scale_zero();
        EACH { scale[t] = ks_scale_body(reference, reference_dtype, count, 1.0, t, THREADS); ks_scale_merge(first, scale[t]); }
        double unit = ks_unit_of(first.max);
        EACH { again[t] = ks_scale_body(reference, reference_dtype, count, unit, t, THREADS); ks_scale_merge(total, again[t]); }
        double rms = ks_root_mean(total.squares, total.finite, unit);
        ks_edges edges = {0.1 * rms, 1e-3 * rms, 1.0 / unit, part};
        EACH errors[t] = ks_errors_body(reference, reference_dtype, candidate, dtype, count, edges, t, THREADS);
        break;
    }
    case 18: {
        u32 dtype = (u32)word(); u64 values = pointer(), out = pointer(), count = word();
        for (u64 i = 0; i < count; i++)
            ks_store(out + i * ks_size(dtype), ks_size(dtype), ks_encode(dtype, ((const double *)values)[i]));
        break;
    }
    case 19: {
        u32 dtype = (u32)word(); u64 elements = pointer(), out = pointer(), count = word();
        for (u64 i = 0; i < count; i++) ((double *)out)[i] = ks_element(elements, dtype, ks_size(dtype), i);
        break;
    }
    case 20: layout((u64 *)pointer()); break;
    default: std::abort();
    }
}

int main() {
    std::vector<u64> input;
    u64 chunk[4096];
    for (size_t n; (n = fread(chunk, 8, 4096, stdin)) > 0;) input.insert(input.end(), chunk, chunk + n);
    const u64 *at = input.data();
    std::vector<u64> length;
    for (u64 n = *at++; n > 0; n--) {
        length.push_back(*at++);
        unsigned char *p = (unsigned char *)std::aligned_alloc(256, (length.back() / 256 + 1) * 256);
        memcpy(p, at, length.back());
        buffers.push_back(p);
        at += (length.back() + 7) / 8;
    }
    for (u64 n = *at++; n > 0; n--) {
        u64 number = *at++, words = *at++;
        args = at;
        call(number);
        if (args != at + words) { fprintf(stderr, "call %llu took %td of %llu words\n", number, args - at, words); return 1; }
        at += words;
    }
    for (size_t i = 0; i < buffers.size(); i++) {
        u64 pad = 0;
        fwrite(buffers[i], 1, length[i], stdout);
        fwrite(&pad, 1, (8 - length[i] % 8) % 8, stdout);
    }
    return 0;
}
