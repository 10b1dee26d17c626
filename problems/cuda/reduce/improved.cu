/* Sum and place of the largest element with wide loads and the whole GPU on long rows.

   Short rows go to 8 lanes or to a warp each, middling ones to a block. Where there are fewer rows than would occupy the
   GPU, each row is cut into parts: one kernel reduces every part into the workspace, a second one the parts of each row,
   always in the same order. */
#include "reduce.h"

#include <cuda_runtime.h>

namespace {

constexpr int THREADS = 256;
constexpr int MOST_PARTS = 1024;
constexpr int64_t LEAST_PART = 4096; /* elements that are worth a block */

struct Found {
    float sum, top;
    int place;
};

__device__ Found nothing()
{
    return {0.0f, -INFINITY, 0x7fffffff};
}

/* Of equal elements the first one counts. */
__device__ void join(Found &a, const Found &b)
{
    a.sum += b.sum;
    if (b.top > a.top || (b.top == a.top && b.place < a.place)) {
        a.top = b.top;
        a.place = b.place;
    }
}

__device__ void take(Found &a, float v, int place)
{
    a.sum += v;
    if (v > a.top) { /* places only grow within a thread */
        a.top = v;
        a.place = place;
    }
}

template <int LANES>
__device__ Found over_lanes(Found a)
{
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2) {
        Found b;
        b.sum = __shfl_xor_sync(~0u, a.sum, o, LANES);
        b.top = __shfl_xor_sync(~0u, a.top, o, LANES);
        b.place = __shfl_xor_sync(~0u, a.place, o, LANES);
        join(a, b);
    }
    return a;
}

/* Every UNITS-th pack of `row` from `unit` on, between packs `first` and `end`, four of them on the way at a time. */
template <int PACK, int UNITS>
__device__ Found gather(const float *row, int64_t first, int64_t end, int unit)
{
    struct alignas(4 * PACK) Pack {
        float v[PACK];
    };
    const Pack *packs = (const Pack *)row;
    Found found[4] = {nothing(), nothing(), nothing(), nothing()};
    int64_t p = first + unit;
    for (; p + 3 * UNITS < end; p += 4 * UNITS) {
        Pack held[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            held[u] = packs[p + u * UNITS];
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int e = 0; e < PACK; e++)
                take(found[u], held[u].v[e], (int)(p + u * UNITS) * PACK + e);
    }
    for (; p < end; p += UNITS) {
        const Pack held = packs[p];
#pragma unroll
        for (int e = 0; e < PACK; e++)
            take(found[0], held.v[e], (int)p * PACK + e);
    }
    join(found[0], found[1]);
    join(found[2], found[3]);
    join(found[0], found[2]);
    return found[0];
}

template <int PACK, int LANES>
__global__ void __launch_bounds__(THREADS)
    rows_in_groups(const float *x, int64_t row_stride, int64_t rows, int64_t cols, float *y, int32_t *index)
{
    const int64_t r = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const bool present = r < rows; /* whole warps stay: the exchange needs every lane */
    const Found found =
        over_lanes<LANES>(gather<PACK, LANES>(x + (present ? r : 0) * row_stride, 0, cols / PACK, lane));
    if (present && lane == 0) {
        y[r] = found.sum;
        index[r] = found.place;
    }
}

/* Leaves the result in the first thread. */
__device__ Found over_block(Found mine)
{
    __shared__ Found shared[THREADS / 32];
    mine = over_lanes<32>(mine);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < THREADS / 32; w++)
            join(mine, shared[w]);
    return mine;
}

/* One part of one row: blockIdx.x is the row, blockIdx.y the part. */
template <int PACK>
__global__ void __launch_bounds__(THREADS)
    parts_of_rows(const float *x, int64_t row_stride, int64_t cols, int64_t part_packs, Found *parts, float *y,
                  int32_t *index)
{
    const int64_t packs = cols / PACK, first = (int64_t)blockIdx.y * part_packs;
    const int64_t end = first + part_packs < packs ? first + part_packs : packs;
    const Found found =
        over_block(gather<PACK, THREADS>(x + (int64_t)blockIdx.x * row_stride, first, end, (int)threadIdx.x));
    if (threadIdx.x != 0)
        return;
    if (gridDim.y > 1) {
        parts[(int64_t)blockIdx.x * gridDim.y + blockIdx.y] = found;
    } else {
        y[blockIdx.x] = found.sum;
        index[blockIdx.x] = found.place;
    }
}

__global__ void __launch_bounds__(THREADS) join_parts(const Found *parts, int count, float *y, int32_t *index)
{
    Found found = nothing();
    for (int p = (int)threadIdx.x; p < count; p += THREADS)
        join(found, parts[(int64_t)blockIdx.x * count + p]);
    found = over_block(found);
    if (threadIdx.x == 0) {
        y[blockIdx.x] = found.sum;
        index[blockIdx.x] = found.place;
    }
}

/* Into how many parts a row is cut: enough blocks for the GPU, none too small. */
int64_t parts_for(int64_t rows, int64_t cols)
{
    const int64_t wanted = (1056 + rows - 1) / rows; /* 8 blocks for each of 132 multiprocessors */
    const int64_t worth = cols / LEAST_PART;
    const int64_t parts = wanted < worth ? wanted : worth;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
}

template <int PACK>
ks_status run(const reduce_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1], step = call->x.stride[0];
    const float *x = (const float *)call->x.data;
    float *y = (float *)call->y.data;
    int32_t *index = (int32_t *)call->index.data;
    const cudaStream_t stream = (cudaStream_t)call->stream;
    if (cols <= 64) {
        rows_in_groups<PACK, 8><<<(unsigned)((rows * 8 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            x, step, rows, cols, y, index);
    } else if (cols <= 2048) {
        rows_in_groups<PACK, 32><<<(unsigned)((rows * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            x, step, rows, cols, y, index);
    } else {
        const int64_t wanted = parts_for(rows, cols), packs = cols / PACK;
        const int64_t part_packs = (packs + wanted - 1) / wanted;
        const int64_t parts = (packs + part_packs - 1) / part_packs; /* none is empty */
        Found *found = (Found *)call->workspace;
        parts_of_rows<PACK><<<dim3((unsigned)rows, (unsigned)parts), THREADS, 0, stream>>>(
            x, step, cols, part_packs, found, y, index);
        if (parts > 1)
            join_parts<<<(unsigned)rows, THREADS, 0, stream>>>(found, (int)parts, y, index);
    }
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

} // namespace

ks_status reduce(const reduce_call *call)
{
    const bool wide = (uintptr_t)call->x.data % 16 == 0 && call->x.shape[1] % 4 == 0 && call->x.stride[0] % 4 == 0;
    return wide ? run<4>(call) : run<1>(call);
}

size_t reduce_workspace(const reduce_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const int64_t parts = cols > 2048 ? parts_for(rows, cols) : 1;
    return parts > 1 ? (size_t)(rows * parts) * sizeof(Found) : 0;
}
