// The supervisor's helper kernels. One dimension, any grid: every thread strides over its share. Compiled to PTX by
// `cargo xtask generate` and launched by `helpers.rs`.
#include "compare.cuh"
#include "content.cuh"
#include "ranges.cuh"

#define KS_THREADS 256
#define KS_KERNEL extern "C" __global__ void __launch_bounds__(KS_THREADS)

inline __device__ u64 thread_of_grid() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
inline __device__ u64 threads_of_grid() { return (u64)gridDim.x * blockDim.x; }

// Sum over a block, complete in thread 0. All threads call it.
inline __device__ u64 block_sum(u64 value) {
    __shared__ u64 of_warp[32];
    for (int d = 16; d > 0; d /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        KS_ROLLED
        for (u32 w = 1; w < blockDim.x / 32; w++) value += of_warp[w];
    return value;
}
inline __device__ u64 block_min(u64 value) {
    __shared__ u64 of_warp[32];
    for (int d = 16; d > 0; d /= 2) value = ks_least(value, __shfl_down_sync(0xFFFFFFFFu, value, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        KS_ROLLED
        for (u32 w = 1; w < blockDim.x / 32; w++) value = ks_least(value, of_warp[w]);
    return value;
}

// ---- contents

KS_KERNEL ks_fill(ks_view view, ks_plan plan, const ks_cell *table, u32 dtype) {
    ks_fill_body(view, plan, table, dtype, thread_of_grid(), threads_of_grid());
}

KS_KERNEL ks_set_view(ks_view view, u64 bits, u32 size) { ks_set(view, bits, size, thread_of_grid(), threads_of_grid()); }

// Ranges of logical elements: `pairs` of (start, length).
KS_KERNEL ks_set_ranges(ks_view view, const u64 *pairs, u64 count, u64 bits, u32 size) {
    for (u64 r = blockIdx.x; r < count; r += gridDim.x)
        ks_set_range(view, pairs + 2 * r, bits, size, threadIdx.x, blockDim.x);
}

// The largest magnitude of each group, as the bits of a double (whose order is that of integers). Zeroed before.
KS_KERNEL ks_amax(ks_plan plan, ks_groups groups, const ks_cell *table, u64 *amax) {
    const u64 RUN = 32;
    u64 runs = (plan.len + RUN - 1) / RUN;
    u64 rounds = (runs + threads_of_grid() - 1) / threads_of_grid();
    KS_ROLLED
    for (u64 round = 0; round < rounds; round++) {
        u64 i = (round * threads_of_grid() + thread_of_grid()) * RUN;
        u64 end = ks_least(i + RUN, plan.len);
        u64 group = KS_NONE, largest = 0, until = i;
        KS_ROLLED
        for (; i < end; i++) {
            if (i >= until) {
                if (group != KS_NONE) ks_atomic_max(amax + group, largest);
                group = ks_group(groups, i);
                until = (i / groups.block + 1) * groups.block;
                largest = 0;
            }
            u64 magnitude = ks_bits_of(ks_abs(ks_value(plan, table, i)));
            largest = magnitude > largest ? magnitude : largest;
        }
        // A warp usually ends in one group: one atomic instead of 32.
        u64 first = __shfl_sync(0xFFFFFFFFu, group, 0);
        if (__all_sync(0xFFFFFFFFu, group == first || group == KS_NONE)) {
            for (int d = 16; d > 0; d /= 2) {
                u64 other = __shfl_down_sync(0xFFFFFFFFu, largest, d);
                largest = other > largest ? other : largest;
            }
            if (threadIdx.x % 32 == 0 && group != KS_NONE) ks_atomic_max(amax + group, largest);
        } else if (group != KS_NONE) {
            ks_atomic_max(amax + group, largest);
        }
    }
}

KS_KERNEL ks_scales(ks_view view, u64 *amax, double target, u32 dtype) {
    ks_scales_body(view, amax, target, dtype, thread_of_grid(), threads_of_grid());
}

KS_KERNEL ks_quantise(ks_view view, ks_plan plan, ks_groups groups, const ks_cell *table, const double *scales, u32 dtype) {
    ks_quantise_body(view, plan, groups, table, scales, dtype, thread_of_grid(), threads_of_grid());
}

KS_KERNEL ks_mutate(ks_view view, ks_plan plan, ks_mutation mutation, const ks_cell *table, u32 dtype, u64 *changed) {
    u64 here = ks_mutate_body(view, plan, mutation, table, dtype, thread_of_grid(), threads_of_grid());
    here = block_sum(here);
    if (threadIdx.x == 0 && here != 0) ks_atomic_add(changed, here);
}

// One thread, after `ks_mutate`.
KS_KERNEL ks_mutate_rest(ks_view view, ks_plan plan, ks_mutation mutation, const ks_cell *table, u32 dtype, u64 *changed) {
    if (thread_of_grid() == 0 && *changed == 0) *changed = ks_mutate_one(view, plan, mutation, table, dtype);
}

KS_KERNEL ks_gather_view(ks_view view, u64 dense, u32 size) { ks_gather(view, dense, size, thread_of_grid(), threads_of_grid()); }
KS_KERNEL ks_scatter_view(ks_view view, u64 dense, u32 size) { ks_scatter(view, dense, size, thread_of_grid(), threads_of_grid()); }

// ---- ranges

// This block's thread number and thread count within range `r`, so that short ranges do not all start in block 0.
inline __device__ u64 thread_of_range(u64 r) {
    return (u64)((blockIdx.x + (u32)(r * 37)) % gridDim.x) * blockDim.x + threadIdx.x;
}

KS_KERNEL ks_poison_ranges(const ks_range *ranges, u64 count) {
    for (u64 r = 0; r < count; r++) ks_poison_fill(ranges[r], thread_of_range(r), threads_of_grid());
}

// `left` zeroed before: one number a range.
KS_KERNEL ks_poison_remains(const ks_range *ranges, u64 count, u64 *left) {
    for (u64 r = 0; r < count; r++) {
        ks_range range = ranges[r];
        u64 thread = thread_of_range(r);
        if ((thread - threadIdx.x) * 8 >= range.bytes) continue;
        u64 here = block_sum(ks_poison_left(range, thread, threads_of_grid()));
        if (threadIdx.x == 0 && here != 0) ks_atomic_add(left + r, here);
    }
}

KS_KERNEL ks_canary_ranges(const ks_range *ranges, u64 count) {
    for (u64 r = 0; r < count; r++) ks_canary_fill(ranges[r], thread_of_range(r), threads_of_grid());
}

// `found`, KS_NONE before, becomes the least range << 40 | byte that is not as it was filled.
KS_KERNEL ks_canary_check_ranges(const ks_range *ranges, u64 count, u64 *found) {
    for (u64 r = 0; r < count; r++) {
        u64 at = ks_canary_check(ranges[r], thread_of_range(r), threads_of_grid());
        if (at != KS_NONE) ks_atomic_min(found, r << 40 | at);
    }
}

// `prints` zeroed before: two words a range.
KS_KERNEL ks_fingerprints(const ks_range *ranges, u64 count, u64 *prints) {
    for (u64 r = 0; r < count; r++) {
        ks_range range = ranges[r];
        u64 thread = thread_of_range(r);
        if ((thread - threadIdx.x) * 8 >= range.bytes) continue;
        ks_print f = ks_print_range(range, thread, threads_of_grid());
        u64 sum = block_sum(f.sum), product = block_sum(f.product);
        if (threadIdx.x == 0) {
            ks_atomic_add(prints + 2 * r, sum);
            ks_atomic_add(prints + 2 * r + 1, product);
        }
    }
}

// `result` is {0, KS_NONE} before: how many elements differ, and the first.
KS_KERNEL ks_differs(u64 a, u64 b, u64 bytes, u32 size, u64 *result) {
    ks_difference d = ks_differ(a, b, bytes, size, thread_of_grid(), threads_of_grid());
    u64 count = block_sum(d.count), first = block_min(d.first);
    if (threadIdx.x == 0 && count != 0) {
        ks_atomic_add(result, count);
        ks_atomic_min(result + 1, first);
    }
}

KS_KERNEL ks_mismatches(u64 reference, u32 reference_dtype, u64 candidate, u32 dtype, u64 count, u64 *result) {
    ks_mismatch m = ks_mismatch_body(reference, reference_dtype, candidate, dtype, count, thread_of_grid(), threads_of_grid());
    u64 number = block_sum(m.count), first = block_min(m.first);
    if (threadIdx.x == 0 && number != 0) {
        ks_atomic_add(result, number);
        ks_atomic_min(result + 1, first);
    }
}

// ---- errors

inline __device__ u64 down(u64 x, int d) { return __shfl_down_sync(0xFFFFFFFFu, x, d); }
inline __device__ double down(double x, int d) { return __shfl_down_sync(0xFFFFFFFFu, x, d); }
inline __device__ ks_scale down(const ks_scale &s, int d) {
    ks_scale o = {down(s.finite, d), down(s.squares, d), down(s.max, d)};
    return o;
}
inline __device__ ks_sum down(const ks_sum &s, int d) {
    ks_sum o = {down(s.count, d), down(s.max, d), down(s.worst, d), down(s.squares, d), down(s.scale, d)};
    return o;
}
inline __device__ ks_errors down(const ks_errors &e, int d) {
    ks_errors o = {down(e.large, d), down(e.medium, d), down(e.small, d), down(e.unexpected, d), down(e.mismatched, d),
                   down(e.matched, d), down(e.first, d), down(e.first_matched, d)};
    return o;
}

// Complete in thread 0; a fixed order, so that the same launch gives the same bits again.
inline __device__ ks_scale block_scale(ks_scale s) {
    __shared__ ks_scale of_warp[KS_THREADS / 32];
    for (int d = 16; d > 0; d /= 2) ks_scale_merge(s, down(s, d));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0)
        KS_ROLLED
        for (u32 w = 1; w < KS_THREADS / 32; w++) ks_scale_merge(s, of_warp[w]);
    return s;
}

// What all blocks of the first pass found, in every thread.
inline __device__ ks_scale total_scale(const ks_scale *partial, u32 blocks) {
    __shared__ ks_scale total;
    ks_scale s = ks_scale_zero();
    for (u32 b = threadIdx.x; b < blocks; b += blockDim.x) ks_scale_merge(s, partial[b]);
    s = block_scale(s);
    if (threadIdx.x == 0) total = s;
    __syncthreads();
    return total;
}

// First pass: what the reference says, one partial result a block.
KS_KERNEL ks_reference_scale(u64 reference, u32 dtype, u64 count, ks_scale *partial) {
    ks_scale s = block_scale(ks_scale_body(reference, dtype, count, 1.0, thread_of_grid(), threads_of_grid()));
    if (threadIdx.x == 0) partial[blockIdx.x] = s;
}

// Again in another unit, if squares left the range. `partial` from `ks_reference_scale` with the same grid.
KS_KERNEL ks_reference_scale_again(u64 reference, u32 dtype, u64 count, const ks_scale *partial, ks_scale *again) {
    double unit = ks_unit_of(total_scale(partial, gridDim.x).max);
    __syncthreads();
    ks_scale s = partial[blockIdx.x];
    if (unit != 1.0) s = block_scale(ks_scale_body(reference, dtype, count, unit, thread_of_grid(), threads_of_grid()));
    if (threadIdx.x == 0) again[blockIdx.x] = s;
}

// Second pass. `scales` partial results of the first one.
KS_KERNEL ks_error_partials(u64 reference, u32 reference_dtype, u64 candidate, u32 dtype, u64 count,
                            const ks_scale *scale, u32 scales, ks_errors *partial, u32 part) {
    __shared__ ks_errors of_warp[KS_THREADS / 32];
    ks_scale s = total_scale(scale, scales);
    double unit = ks_unit_of(s.max), rms = ks_root_mean(s.squares, s.finite, unit);
    ks_edges edges = {0.1 * rms, 1e-3 * rms, 1.0 / unit, part};
    ks_errors e = ks_errors_body(reference, reference_dtype, candidate, dtype, count, edges, thread_of_grid(), threads_of_grid());
    for (int d = 16; d > 0; d /= 2) ks_errors_merge(e, down(e, d));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = e;
    __syncthreads();
    if (threadIdx.x == 0) {
        KS_ROLLED
        for (u32 w = 1; w < KS_THREADS / 32; w++) ks_errors_merge(e, of_warp[w]);
        partial[blockIdx.x] = e;
    }
}

// ---- memory, clocks, peaks

// Writes every 16 bytes of a buffer. What is written changes with `seed`.
KS_KERNEL ks_sweep_write(ks_pair *buffer, u64 pairs, u64 seed) {
    for (u64 c = thread_of_grid(); c < pairs; c += threads_of_grid()) {
        ks_pair pair = {seed + c, seed};
        buffer[c] = pair;
    }
}

inline __device__ ks_pair load_past_l1(const ks_pair *at) {
#ifdef __CUDA_ARCH__
    ks_pair v;
    asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(at));
    return v;
#else
    return *at;
#endif
}

// Reads every 16 bytes of a buffer `repeats` times. The sum goes to `sink` only in a case that the compiler cannot
// exclude and that does not happen.
KS_KERNEL ks_sweep_read(const ks_pair *buffer, u64 pairs, u32 repeats, u64 never, u64 *sink) {
    u64 sum = 0;
    for (u32 n = 0; n < repeats; n++) {
        u64 c = thread_of_grid();
        for (; c + 3 * threads_of_grid() < pairs; c += 4 * threads_of_grid()) {
            ks_pair v[4];
KS_UNROLLED
            for (int k = 0; k < 4; k++) v[k] = load_past_l1(buffer + c + k * threads_of_grid());
KS_UNROLLED
            for (int k = 0; k < 4; k++) sum += v[k].x ^ v[k].y;
        }
        for (; c < pairs; c += threads_of_grid()) {
            ks_pair v = load_past_l1(buffer + c);
            sum += v.x ^ v.y;
        }
    }
    if (sum == never) *sink = sum;
}

inline __device__ u64 global_time() {
#ifdef __CUDA_ARCH__
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
#else
    return (u64)clock64();
#endif
}

// Spins for `cycles` of the multiprocessor's clock and writes {clock, time} at both ends. The global timer moves in
// steps, so both ends wait for a step.
KS_KERNEL ks_stamp(u64 cycles, u64 *out) {
    if (thread_of_grid() != 0) return;
    u64 before = global_time(), time0, time1;
    do time0 = global_time(); while (time0 == before);
    u64 clock0 = (u64)clock64();
    while ((u64)clock64() - clock0 < cycles) {}
    before = global_time();
    do time1 = global_time(); while (time1 == before);
    u64 clock1 = (u64)clock64();
    out[0] = clock0;
    out[1] = clock1;
    out[2] = time0;
    out[3] = time1;
}

// Keeps one thread busy for `cycles`.
KS_KERNEL ks_spin(u64 cycles) {
    u64 start = (u64)clock64();
    while ((u64)clock64() - start < cycles) {}
}

// `rounds` times 64 fused multiply-adds a thread, in eight independent chains.
KS_KERNEL ks_fma(u32 rounds, float a, float b, float *sink) {
    float x[8];
KS_UNROLLED
    for (int k = 0; k < 8; k++) x[k] = (float)(threadIdx.x + k);
    for (u32 n = 0; n < rounds; n++) {
KS_UNROLLED
        for (int u = 0; u < 8; u++) {
KS_UNROLLED
            for (int k = 0; k < 8; k++) x[k] = fmaf(x[k], a, b);
        }
    }
    float sum = 0.0f;
KS_UNROLLED
    for (int k = 0; k < 8; k++) sum += x[k];
    if (sum == -1.0f) *sink = sum;
}
