/* Layer normalisation in double precision, straight from the definition and from the strides of the call. `reference.py`
   says the same in torch; this one serves where torch is not installed. */
#include "layernorm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 512;

__device__ double at(const ks_tensor &x, int64_t row, int64_t col)
{
    return (double)__bfloat162float(((const __nv_bfloat16 *)x.data)[row * x.stride[0] + col * x.stride[1]]);
}

__device__ double sum_over_block(double mine)
{
    __shared__ double shared[THREADS];
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    double sum = 0.0;
    for (int t = 0; t < THREADS; t++)
        sum += shared[t];
    return sum;
}

__global__ void reference_rows(ks_tensor x, ks_tensor gamma, ks_tensor beta, ks_tensor y, ks_tensor mean_out,
                               ks_tensor rstd_out, double eps)
{
    const int64_t r = blockIdx.x, cols = x.shape[1];
    double sum = 0.0, squares = 0.0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        sum += at(x, r, c);
    const double mean = sum_over_block(sum) / (double)cols;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        squares += (at(x, r, c) - mean) * (at(x, r, c) - mean);
    const double rstd = 1.0 / sqrt(sum_over_block(squares) / (double)cols + eps);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        ((__nv_bfloat16 *)y.data)[r * y.stride[0] + c * y.stride[1]] =
            __double2bfloat16((at(x, r, c) - mean) * rstd * (double)((const float *)gamma.data)[c * gamma.stride[0]] +
                              (double)((const float *)beta.data)[c * beta.stride[0]]);
    if (threadIdx.x == 0) {
        ((float *)mean_out.data)[r * mean_out.stride[0]] = (float)mean;
        ((float *)rstd_out.data)[r * rstd_out.stride[0]] = (float)rstd;
    }
}

ks_status layernorm(const layernorm_call *call)
{
    reference_rows<<<(unsigned)call->x.shape[0], THREADS, 0, (cudaStream_t)call->stream>>>(
        call->x, call->gamma, call->beta, call->y, call->mean, call->rstd, call->eps);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
