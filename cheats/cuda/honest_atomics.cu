/* Zeroes its sums with a memset and adds parts of each row atomically.

   Expected: PASS or UNRESOLVED. */
#include "reduce.h"

#include <cuda_runtime.h>

/* The order of a float: larger floats have larger codes. */
static __device__ unsigned code(float v)
{
    const unsigned u = __float_as_uint(v + 0.0f); /* -0 becomes 0: both are equal and the first one counts */
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static __global__ void parts(const float *x, int64_t row_stride, int64_t cols, float *y, unsigned long long *best)
{
    __shared__ float sums[256];
    __shared__ unsigned long long tops[256];
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float sum = 0.0f;
    unsigned long long top = 0;
    for (int64_t c = (int64_t)blockIdx.y * 256 + threadIdx.x; c < cols; c += (int64_t)gridDim.y * 256) {
        sum += row[c];
        /* Of equal elements the one with the lower column has the larger key. */
        const unsigned long long key = (unsigned long long)code(row[c]) << 32 | (0xffffffffu - (unsigned)c);
        top = key > top ? key : top;
    }
    sums[threadIdx.x] = sum;
    tops[threadIdx.x] = top;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            tops[threadIdx.x] = tops[threadIdx.x] > tops[threadIdx.x + half] ? tops[threadIdx.x] : tops[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        atomicAdd(&y[blockIdx.x], sums[0]);
        atomicMax(&best[blockIdx.x], tops[0]);
    }
}

static __global__ void places(const unsigned long long *best, int32_t *index, int64_t rows)
{
    const int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows)
        index[r] = (int32_t)(0xffffffffu - (unsigned)best[r]);
}

size_t reduce_workspace(const reduce_call *call)
{
    return (size_t)call->x.shape[0] * sizeof(unsigned long long);
}

ks_status reduce(const reduce_call *call)
{
    const cudaStream_t stream = (cudaStream_t)call->stream;
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const unsigned each = (unsigned)(cols / 8192 + 1 < 256 ? cols / 8192 + 1 : 256);
    unsigned long long *best = (unsigned long long *)call->workspace;
    cudaMemsetAsync(call->y.data, 0, (size_t)rows * sizeof(float), stream);
    cudaMemsetAsync(best, 0, (size_t)rows * sizeof *best, stream);
    parts<<<dim3((unsigned)rows, each), 256, 0, stream>>>((const float *)call->x.data, call->x.stride[0], cols,
                                                          (float *)call->y.data, best);
    places<<<(unsigned)((rows + 255) / 256), 256, 0, stream>>>(best, (int32_t *)call->index.data, rows);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
