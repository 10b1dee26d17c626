/* Layer normalisation, one block for each row: mean, variance about the mean, scale and shift. */
#include "layernorm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256;

/* The sum over the block; every thread gets it. */
__device__ float sum_over_block(float mine)
{
    __shared__ float shared[THREADS];
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

__global__ void layernorm_rows(const __nv_bfloat16 *x, int64_t row_stride, const float *gamma, const float *beta,
                               __nv_bfloat16 *y, float *mean_out, float *rstd_out, int64_t cols, float eps)
{
    const __nv_bfloat16 *row = x + (int64_t)blockIdx.x * row_stride;
    __nv_bfloat16 *out = y + (int64_t)blockIdx.x * cols;

    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        sum += __bfloat162float(row[c]);
    const float mean = sum_over_block(sum) / (float)cols;

    float squares = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        const float d = __bfloat162float(row[c]) - mean;
        squares += d * d;
    }
    const float rstd = 1.0f / sqrtf(sum_over_block(squares) / (float)cols + eps);

    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        out[c] = __float2bfloat16((__bfloat162float(row[c]) - mean) * rstd * gamma[c] + beta[c]);
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        rstd_out[blockIdx.x] = rstd;
    }
}

ks_status layernorm(const layernorm_call *call)
{
    layernorm_rows<<<(unsigned)call->x.shape[0], THREADS, 0, (cudaStream_t)call->stream>>>(
        (const __nv_bfloat16 *)call->x.data, call->x.stride[0], (const float *)call->gamma.data,
        (const float *)call->beta.data, (__nv_bfloat16 *)call->y.data, (float *)call->mean.data,
        (float *)call->rstd.data, call->x.shape[1], (float)call->eps);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
