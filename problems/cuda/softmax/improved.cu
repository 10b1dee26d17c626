/* Softmax of every row with each element read from memory once.

   Rows of up to 1024 elements stay in the registers of a group of 8 or 32 lanes, rows of up to 16384 in those of a
   block. Longer rows, and middling ones where there are too few rows to occupy the GPU, are cut into chunks: one kernel
   finds the largest element and the sum of each chunk, a second one combines them and writes. Loads and stores are
   16 bytes wide wherever the strides and addresses allow it. */
#include "softmax.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int CHUNK_THREADS = 256;
constexpr int64_t CHUNK = 4096;

__device__ float widen(float v) { return v; }
__device__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ void narrow(float *y, float v) { *y = v; }
__device__ void narrow(__nv_bfloat16 *y, float v) { *y = __float2bfloat16(v); }

/* `N` neighbouring elements, moved in one instruction. */
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T v[N];
};

/* The largest element so far and the sum of e^(x - largest). */
struct Partial {
    float top, sum;
};

__device__ Partial join(Partial a, Partial b)
{
    const float top = fmaxf(a.top, b.top);
    /* An empty part has a top of -inf and a sum of 0; its weight must not become e^(-inf + inf). */
    const float wa = a.top == -INFINITY ? 0.0f : expf(a.top - top);
    const float wb = b.top == -INFINITY ? 0.0f : expf(b.top - top);
    return {top, a.sum * wa + b.sum * wb};
}

template <int LANES>
__device__ float max_of_group(float v)
{
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, o, LANES));
    return v;
}

template <int LANES>
__device__ float sum_of_group(float v)
{
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o, LANES);
    return v;
}

/* Four sums rather than one: where most elements of a row are alike, every addition of a long chain rounds the same way. */
template <int N>
__device__ float sum_of(const float (&v)[N])
{
    float part[4] = {};
#pragma unroll
    for (int i = 0; i < N; i++)
        part[i % 4] += v[i];
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Groups of LANES lanes, one row each; lane l holds packs l, l + LANES, … of its row. */
template <class T, int PACK, int LANES, int PACKS>
__global__ void __launch_bounds__(128) rows_in_groups(const T *x, int64_t row_stride, T *y, int64_t rows, int cols)
{
    const int64_t r = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    const bool present = r < rows; /* whole warps stay: the exchanges below need every lane */
    const T *row = x + (present ? r : 0) * row_stride;
    const int packs = cols / PACK; /* PACK divides cols, or is 1 */

    float held[PACKS * PACK];
    float top = -INFINITY;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * LANES + lane;
        if (at < packs) {
            const auto pack = *(const Pack<T, PACK> *)(row + (int64_t)at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                held[p * PACK + e] = widen(pack.v[e]);
                top = fmaxf(top, held[p * PACK + e]);
            }
        } else {
#pragma unroll
            for (int e = 0; e < PACK; e++)
                held[p * PACK + e] = -INFINITY;
        }
    }
    top = max_of_group<LANES>(top);
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++)
        held[i] = expf(held[i] - top);
    const float sum = sum_of(held);
    const float scale = 1.0f / sum_of_group<LANES>(sum);
    if (!present)
        return;
    T *out = y + r * cols;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * LANES + lane;
        if (at < packs) {
            Pack<T, PACK> pack;
#pragma unroll
            for (int e = 0; e < PACK; e++)
                narrow(&pack.v[e], held[p * PACK + e] * scale);
            *(Pack<T, PACK> *)(out + (int64_t)at * PACK) = pack;
        }
    }
}

/* One value of each warp, combined by every warp alike. */
template <int THREADS, bool MAXIMUM>
__device__ float over_block(float v)
{
    constexpr int WARPS = THREADS / 32;
    __shared__ float shared[WARPS];
    v = MAXIMUM ? max_of_group<32>(v) : sum_of_group<32>(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < WARPS ? shared[threadIdx.x % 32] : MAXIMUM ? -INFINITY : 0.0f;
    return MAXIMUM ? max_of_group<32>(v) : sum_of_group<32>(v);
}

/* One block a row, the row in its registers. */
template <class T, int PACK, int THREADS, int PACKS>
__global__ void __launch_bounds__(THREADS) rows_in_blocks(const T *x, int64_t row_stride, T *y, int cols)
{
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    T *out = y + (int64_t)blockIdx.x * cols;
    const int packs = cols / PACK;

    float held[PACKS * PACK];
    float top = -INFINITY;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * THREADS + (int)threadIdx.x;
        if (at < packs) {
            const auto pack = *(const Pack<T, PACK> *)(row + (int64_t)at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                held[p * PACK + e] = widen(pack.v[e]);
                top = fmaxf(top, held[p * PACK + e]);
            }
        } else {
#pragma unroll
            for (int e = 0; e < PACK; e++)
                held[p * PACK + e] = -INFINITY;
        }
    }
    top = over_block<THREADS, true>(top);
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++)
        held[i] = expf(held[i] - top);
    const float sum = sum_of(held);
    const float scale = 1.0f / over_block<THREADS, false>(sum);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * THREADS + (int)threadIdx.x;
        if (at < packs) {
            Pack<T, PACK> pack;
#pragma unroll
            for (int e = 0; e < PACK; e++)
                narrow(&pack.v[e], held[p * PACK + e] * scale);
            *(Pack<T, PACK> *)(out + (int64_t)at * PACK) = pack;
        }
    }
}

/* Largest element and sum of one chunk of one row. */
template <class T, int PACK>
__global__ void __launch_bounds__(CHUNK_THREADS) chunk_parts(const T *x, int64_t row_stride, int64_t cols, Partial *parts)
{
    constexpr int PACKS = (int)(CHUNK / CHUNK_THREADS / PACK);
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    const int64_t first = (int64_t)blockIdx.y * CHUNK / PACK;
    const int64_t packs = cols / PACK;

    float held[PACKS * PACK];
    float top = -INFINITY;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int64_t at = first + p * CHUNK_THREADS + threadIdx.x;
        if (at < packs) {
            const auto pack = *(const Pack<T, PACK> *)(row + at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                held[p * PACK + e] = widen(pack.v[e]);
                top = fmaxf(top, held[p * PACK + e]);
            }
        } else {
#pragma unroll
            for (int e = 0; e < PACK; e++)
                held[p * PACK + e] = -INFINITY;
        }
    }
    top = over_block<CHUNK_THREADS, true>(top); /* finite: every chunk has an element */
#pragma unroll
    for (int i = 0; i < PACKS * PACK; i++)
        held[i] = expf(held[i] - top);
    const float sum = over_block<CHUNK_THREADS, false>(sum_of(held));
    if (threadIdx.x == 0)
        parts[(int64_t)blockIdx.x * gridDim.y + blockIdx.y] = {top, sum};
}

/* Combines the parts of a row, always in the same order, and writes one chunk of it. */
template <class T, int PACK>
__global__ void __launch_bounds__(CHUNK_THREADS)
    chunk_write(const T *x, int64_t row_stride, T *y, int64_t cols, const Partial *parts)
{
    constexpr int PACKS = (int)(CHUNK / CHUNK_THREADS / PACK);
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    T *out = y + (int64_t)blockIdx.x * cols;
    const int64_t first = (int64_t)blockIdx.y * CHUNK / PACK;
    const int64_t packs = cols / PACK;
    parts += (int64_t)blockIdx.x * gridDim.y;

    Partial mine = {-INFINITY, 0.0f};
    for (unsigned p = threadIdx.x; p < gridDim.y; p += CHUNK_THREADS)
        mine = join(mine, parts[p]);
    const float top = over_block<CHUNK_THREADS, true>(mine.top);
    const float weight = mine.top == -INFINITY ? 0.0f : expf(mine.top - top);
    const float scale = 1.0f / over_block<CHUNK_THREADS, false>(mine.sum * weight);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int64_t at = first + p * CHUNK_THREADS + threadIdx.x;
        if (at < packs) {
            auto pack = *(const Pack<T, PACK> *)(row + at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++)
                narrow(&pack.v[e], expf(widen(pack.v[e]) - top) * scale);
            *(Pack<T, PACK> *)(out + at * PACK) = pack;
        }
    }
}

int64_t chunks_of(int64_t cols)
{
    return (cols + CHUNK - 1) / CHUNK;
}

/* Whether a row is cut into chunks: it does not fit in the registers of a block, or there are too few rows. */
bool in_chunks(int64_t rows, int64_t cols)
{
    return cols > 16384 || (cols > 2 * CHUNK && rows < 66);
}

template <class T, int PACK, int LANES, int PACKS>
void launch_groups(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0];
    const int64_t blocks = (rows * LANES + 127) / 128;
    rows_in_groups<T, PACK, LANES, PACKS><<<(unsigned)blocks, 128, 0, (cudaStream_t)call->stream>>>(
        (const T *)call->x.data, call->x.stride[0], (T *)call->y.data, rows, (int)call->x.shape[1]);
}

template <class T, int PACK, int THREADS, int PACKS>
void launch_blocks(const softmax_call *call)
{
    rows_in_blocks<T, PACK, THREADS, PACKS>
        <<<(unsigned)call->x.shape[0], THREADS, 0, (cudaStream_t)call->stream>>>(
            (const T *)call->x.data, call->x.stride[0], (T *)call->y.data, (int)call->x.shape[1]);
}

/* Packs for each of `owners` lanes or threads so that together they hold `capacity` elements. */
constexpr int packs_for(int capacity, int owners, int pack)
{
    return capacity / owners / pack > 1 ? capacity / owners / pack : 1;
}

/* The smallest arrangement that holds a row of `cols` elements in packs of PACK. */
template <class T, int PACK>
ks_status run(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    if (in_chunks(rows, cols)) {
        const dim3 grid((unsigned)rows, (unsigned)chunks_of(cols));
        const cudaStream_t stream = (cudaStream_t)call->stream;
        Partial *parts = (Partial *)call->workspace;
        chunk_parts<T, PACK><<<grid, CHUNK_THREADS, 0, stream>>>(
            (const T *)call->x.data, call->x.stride[0], cols, parts);
        chunk_write<T, PACK><<<grid, CHUNK_THREADS, 0, stream>>>(
            (const T *)call->x.data, call->x.stride[0], (T *)call->y.data, cols, parts);
    } else if (cols <= 8) {
        launch_groups<T, PACK, 8, packs_for(8, 8, PACK)>(call);
    } else if (cols <= 16) {
        launch_groups<T, PACK, 8, packs_for(16, 8, PACK)>(call);
    } else if (cols <= 64) {
        launch_groups<T, PACK, 8, packs_for(64, 8, PACK)>(call);
    } else if (cols <= 256) {
        launch_groups<T, PACK, 32, packs_for(256, 32, PACK)>(call);
    } else if (cols <= 512) {
        launch_groups<T, PACK, 32, packs_for(512, 32, PACK)>(call);
    } else if (cols <= 1024) {
        launch_groups<T, PACK, 32, packs_for(1024, 32, PACK)>(call);
    } else if (cols <= 2048) {
        launch_blocks<T, PACK, 256, packs_for(2048, 256, PACK)>(call);
    } else if (cols <= 4096) {
        launch_blocks<T, PACK, 256, packs_for(4096, 256, PACK)>(call);
    } else if (cols <= 8192) {
        launch_blocks<T, PACK, 512, packs_for(8192, 512, PACK)>(call);
    } else {
        launch_blocks<T, PACK, 1024, packs_for(16384, 1024, PACK)>(call);
    }
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

template <class T>
ks_status with_packs(const softmax_call *call)
{
    constexpr int WIDE = 16 / sizeof(T);
    const bool aligned = (uintptr_t)call->x.data % 16 == 0 && (uintptr_t)call->y.data % 16 == 0;
    const bool whole = call->x.shape[1] % WIDE == 0 && call->x.stride[0] % WIDE == 0;
    return aligned && whole ? run<T, WIDE>(call) : run<T, 1>(call);
}

} // namespace

ks_status softmax(const softmax_call *call)
{
    return call->x.dtype == KS_F32 ? with_packs<float>(call) : with_packs<__nv_bfloat16>(call);
}

size_t softmax_workspace(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    return in_chunks(rows, cols) ? (size_t)(rows * chunks_of(cols)) * sizeof(Partial) : 0;
}
