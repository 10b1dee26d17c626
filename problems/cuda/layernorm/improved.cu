/* Layer normalisation with each element of x read from memory once.

   A row stays in the registers of a warp (up to 1024 elements) or of a block (up to 16384): mean, then the squared
   distances from it, then the result, with no second read. Longer rows are cut into parts that many blocks work on at
   the same time. Each part gives its mean and its squared distances from that; parts are combined exactly as if one
   had seen the whole row. Loads and stores are 16 bytes wide where strides and addresses allow it. */
#include "layernorm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int PART_THREADS = 256;
constexpr int PART = 4096; /* elements of a part */

template <int PACK>
struct alignas(2 * PACK) Pack {
    __nv_bfloat16 v[PACK];
};

/* Mean of `count` elements and their squared distances from it. */
struct Spread {
    float count, mean, squares;
};

__device__ Spread join(Spread a, Spread b)
{
    const float count = a.count + b.count;
    if (count == 0.0f)
        return a;
    const float apart = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
}

/* The sum over GROUP lanes, or over a block of GROUP threads; every thread gets it. */
template <int GROUP>
__device__ float sum_over(float v)
{
    constexpr int LANES = GROUP < 32 ? GROUP : 32;
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o, LANES);
    if constexpr (GROUP > 32) {
        constexpr int WARPS = GROUP / 32;
        __shared__ float shared[WARPS];
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            shared[threadIdx.x / 32] = v;
        __syncthreads();
        v = threadIdx.x % 32 < WARPS ? shared[threadIdx.x % 32] : 0.0f;
#pragma unroll
        for (int o = 16; o > 0; o /= 2)
            v += __shfl_xor_sync(~0u, v, o);
    }
    return v;
}

template <int PACK>
__device__ void scale_and_store(const float *held, int at, float mean, float rstd, const float *gamma,
                                const float *beta, __nv_bfloat16 *out)
{
    struct alignas(PACK > 1 ? 16 : 4) Floats {
        float v[PACK > 1 ? 4 : 1];
    };
    Pack<PACK> pack;
#pragma unroll
    for (int q = 0; q < PACK; q += PACK > 1 ? 4 : 1) {
        const Floats g = *(const Floats *)(gamma + (int64_t)at * PACK + q);
        const Floats b = *(const Floats *)(beta + (int64_t)at * PACK + q);
#pragma unroll
        for (int e = 0; e < (PACK > 1 ? 4 : 1); e++)
            pack.v[q + e] = __float2bfloat16((held[q + e] - mean) * rstd * g.v[e] + b.v[e]);
    }
    *(Pack<PACK> *)(out + (int64_t)at * PACK) = pack;
}

/* GROUP threads a row: lanes of a warp (blocks of 128 then hold several rows), or a whole block. */
template <int PACK, int GROUP, int PACKS>
__global__ void __launch_bounds__(GROUP < 128 ? 128 : GROUP)
    rows_in_registers(const __nv_bfloat16 *x, int64_t row_stride, const float *gamma, const float *beta,
                      __nv_bfloat16 *y, float *mean_out, float *rstd_out, int64_t rows, int cols, float eps)
{
    const int64_t r = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / GROUP;
    const int unit = threadIdx.x % GROUP;
    const bool present = r < rows; /* whole warps stay: the sums need every lane */
    const __nv_bfloat16 *row = x + (present ? r : 0) * row_stride;
    const int packs = cols / PACK;

    float held[PACKS * PACK];
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * GROUP + unit;
        if (at < packs) {
            const Pack<PACK> pack = *(const Pack<PACK> *)(row + (int64_t)at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                held[p * PACK + e] = __bfloat162float(pack.v[e]);
                sum += held[p * PACK + e];
            }
        }
    }
    const float mean = sum_over<GROUP>(sum) / (float)cols;
    float squares = 0.0f;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        if (p * GROUP + unit < packs) {
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                const float d = held[p * PACK + e] - mean;
                squares += d * d;
            }
        }
    }
    const float rstd = 1.0f / sqrtf(sum_over<GROUP>(squares) / (float)cols + eps);
    if (!present)
        return;
    __nv_bfloat16 *out = y + r * cols;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * GROUP + unit;
        if (at < packs)
            scale_and_store<PACK>(held + p * PACK, at, mean, rstd, gamma, beta, out);
    }
    if (unit == 0) {
        mean_out[r] = mean;
        rstd_out[r] = rstd;
    }
}

/* The packs of this thread of part blockIdx.y of row blockIdx.x. Returns how many elements the part has. */
template <int PACK>
__device__ int load_part(const __nv_bfloat16 *row, int64_t cols, float *held)
{
    const int64_t first = (int64_t)blockIdx.y * PART;
    const int size = (int)(cols - first < PART ? cols - first : PART);
#pragma unroll
    for (int p = 0; p < PART / PART_THREADS / PACK; p++) {
        const int at = p * PART_THREADS + (int)threadIdx.x;
        if (at < size / PACK) {
            const Pack<PACK> pack = *(const Pack<PACK> *)(row + first + (int64_t)at * PACK);
#pragma unroll
            for (int e = 0; e < PACK; e++)
                held[p * PACK + e] = __bfloat162float(pack.v[e]);
        }
    }
    return size;
}

template <int PACK>
__global__ void __launch_bounds__(PART_THREADS)
    spread_of_parts(const __nv_bfloat16 *x, int64_t row_stride, int64_t cols, Spread *parts)
{
    constexpr int PACKS = PART / PART_THREADS / PACK;
    float held[PACKS * PACK];
    const int size = load_part<PACK>(x + (int64_t)blockIdx.x * row_stride, cols, held);
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if (p * PART_THREADS + (int)threadIdx.x < size / PACK)
#pragma unroll
            for (int e = 0; e < PACK; e++)
                sum += held[p * PACK + e];
    const float mean = sum_over<PART_THREADS>(sum) / (float)size;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if (p * PART_THREADS + (int)threadIdx.x < size / PACK)
#pragma unroll
            for (int e = 0; e < PACK; e++) {
                const float d = held[p * PACK + e] - mean;
                squares += d * d;
            }
    squares = sum_over<PART_THREADS>(squares);
    if (threadIdx.x == 0)
        parts[(int64_t)blockIdx.x * gridDim.y + blockIdx.y] = {(float)size, mean, squares};
}

template <int PACK>
__global__ void __launch_bounds__(PART_THREADS)
    write_parts(const __nv_bfloat16 *x, int64_t row_stride, const float *gamma, const float *beta, __nv_bfloat16 *y,
                float *mean_out, float *rstd_out, int64_t cols, float eps, const Spread *parts)
{
    constexpr int PACKS = PART / PART_THREADS / PACK;
    __shared__ float shared[2];
    float held[PACKS * PACK];
    const int size = load_part<PACK>(x + (int64_t)blockIdx.x * row_stride, cols, held);

    /* One warp combines the parts of the row, every block in the same order. */
    if (threadIdx.x < 32) {
        Spread all = {0.0f, 0.0f, 0.0f};
        for (unsigned p = threadIdx.x; p < gridDim.y; p += 32)
            all = join(all, parts[(int64_t)blockIdx.x * gridDim.y + p]);
#pragma unroll
        for (int o = 16; o > 0; o /= 2) {
            Spread other;
            other.count = __shfl_down_sync(~0u, all.count, o);
            other.mean = __shfl_down_sync(~0u, all.mean, o);
            other.squares = __shfl_down_sync(~0u, all.squares, o);
            all = join(all, other);
        }
        if (threadIdx.x == 0) {
            shared[0] = all.mean;
            shared[1] = 1.0f / sqrtf(all.squares / (float)cols + eps);
        }
    }
    __syncthreads();
    const float mean = shared[0], rstd = shared[1];
    const int64_t first = (int64_t)blockIdx.y * PART;
    __nv_bfloat16 *out = y + (int64_t)blockIdx.x * cols + first;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int at = p * PART_THREADS + (int)threadIdx.x;
        if (at < size / PACK)
            scale_and_store<PACK>(held + p * PACK, at, mean, rstd, gamma + first, beta + first, out);
    }
    if (threadIdx.x == 0 && blockIdx.y == 0) {
        mean_out[blockIdx.x] = mean;
        rstd_out[blockIdx.x] = rstd;
    }
}

int64_t parts_of(int64_t cols)
{
    return (cols + PART - 1) / PART;
}

/* Whether rows are cut: they do not fit in a block's registers, or they are long and too few for the GPU. */
bool in_parts(int64_t rows, int64_t cols)
{
    return cols > 16384 || (cols > 2 * PART && rows < 66);
}

template <int PACK, int GROUP, int CAPACITY>
void in_registers(const layernorm_call *call)
{
    constexpr int PACKS = CAPACITY / GROUP / PACK > 1 ? CAPACITY / GROUP / PACK : 1;
    constexpr int THREADS = GROUP < 128 ? 128 : GROUP;
    const int64_t rows = call->x.shape[0];
    rows_in_registers<PACK, GROUP, PACKS>
        <<<(unsigned)((rows * GROUP + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)call->stream>>>(
            (const __nv_bfloat16 *)call->x.data, call->x.stride[0], (const float *)call->gamma.data,
            (const float *)call->beta.data, (__nv_bfloat16 *)call->y.data, (float *)call->mean.data,
            (float *)call->rstd.data, rows, (int)call->x.shape[1], (float)call->eps);
}

template <int PACK>
ks_status run(const layernorm_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    if (in_parts(rows, cols)) {
        const dim3 grid((unsigned)rows, (unsigned)parts_of(cols));
        const cudaStream_t stream = (cudaStream_t)call->stream;
        const __nv_bfloat16 *x = (const __nv_bfloat16 *)call->x.data;
        Spread *parts = (Spread *)call->workspace;
        spread_of_parts<PACK><<<grid, PART_THREADS, 0, stream>>>(x, call->x.stride[0], cols, parts);
        write_parts<PACK><<<grid, PART_THREADS, 0, stream>>>(
            x, call->x.stride[0], (const float *)call->gamma.data, (const float *)call->beta.data,
            (__nv_bfloat16 *)call->y.data, (float *)call->mean.data, (float *)call->rstd.data, cols, (float)call->eps,
            parts);
    } else if (cols <= 64) {
        in_registers<PACK, 8, 64>(call);
    } else if (cols <= 256) {
        in_registers<PACK, 32, 256>(call);
    } else if (cols <= 1024) {
        in_registers<PACK, 32, 1024>(call);
    } else if (cols <= 2048) {
        in_registers<PACK, 128, 2048>(call);
    } else if (cols <= 4096) {
        in_registers<PACK, 256, 4096>(call);
    } else if (cols <= 8192) {
        in_registers<PACK, 512, 8192>(call);
    } else {
        in_registers<PACK, 1024, 16384>(call);
    }
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

bool aligned(const ks_tensor &t)
{
    return (uintptr_t)t.data % 16 == 0;
}

} // namespace

ks_status layernorm(const layernorm_call *call)
{
    const bool wide = aligned(call->x) && aligned(call->y) && aligned(call->gamma) && aligned(call->beta) &&
                      call->x.shape[1] % 8 == 0 && call->x.stride[0] % 8 == 0;
    return wide ? run<8>(call) : run<1>(call);
}

size_t layernorm_workspace(const layernorm_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    return in_parts(rows, cols) ? (size_t)(rows * parts_of(cols)) * sizeof(Spread) : 0;
}
