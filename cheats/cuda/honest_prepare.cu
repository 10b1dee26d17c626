/* Lays the constant tensors side by side in `prepare`, in the workspace.

   Expected: PASS or UNRESOLVED. */
#include "layernorm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

static __device__ float sum_over_block(float mine)
{
    __shared__ float shared[256];
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}

/* The seed's computation; `both` holds gamma and beta side by side. */
static __global__ void rows_of(const __nv_bfloat16 *x, int64_t row_stride, const float2 *both, __nv_bfloat16 *y,
                               float *mean_out, float *rstd_out, int64_t cols, float eps)
{
    const __nv_bfloat16 *row = x + (int64_t)blockIdx.x * row_stride;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += __bfloat162float(row[c]);
    const float mean = sum_over_block(sum) / (float)cols;
    for (int64_t c = threadIdx.x; c < cols; c += 256) {
        const float d = __bfloat162float(row[c]) - mean;
        squares += d * d;
    }
    const float rstd = 1.0f / sqrtf(sum_over_block(squares) / (float)cols + eps);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        y[(int64_t)blockIdx.x * cols + c] =
            __float2bfloat16((__bfloat162float(row[c]) - mean) * rstd * both[c].x + both[c].y);
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        rstd_out[blockIdx.x] = rstd;
    }
}

static __global__ void side_by_side(const float *gamma, const float *beta, float2 *both, int64_t cols)
{
    const int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols)
        both[c] = make_float2(gamma[c], beta[c]);
}

static ks_status launch_rows(const layernorm_call *call, const float2 *both)
{
    rows_of<<<(unsigned)call->x.shape[0], 256, 0, (cudaStream_t)call->stream>>>(
        (const __nv_bfloat16 *)call->x.data, call->x.stride[0], both, (__nv_bfloat16 *)call->y.data,
        (float *)call->mean.data, (float *)call->rstd.data, call->x.shape[1], (float)call->eps);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

static void lay_out(const layernorm_call *call, float2 *both)
{
    const int64_t cols = call->x.shape[1];
    side_by_side<<<(unsigned)((cols + 255) / 256), 256, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->gamma.data, (const float *)call->beta.data, both, cols);
}

size_t layernorm_workspace(const layernorm_call *call)
{
    return (size_t)call->x.shape[1] * sizeof(float2);
}

ks_status layernorm_prepare(const layernorm_call *call)
{
    lay_out(call, (float2 *)call->workspace);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

ks_status layernorm(const layernorm_call *call)
{
    return launch_rows(call, (const float2 *)call->workspace);
}
