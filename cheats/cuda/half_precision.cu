/* Computes exponentials and sums in half precision.

   Expected: FAIL by correct.. */
#include "honest.cuh"

#include <cuda_fp16.h>

static __global__ void in_half(const float *x, int64_t row_stride, float *y, int64_t cols)
{
    __shared__ __half shared[256];
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float *out = y + (int64_t)blockIdx.x * cols;
    float top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, row[c]);
    top = over_block<true>(top);
    __half sum = __float2half(0.0f);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum = __hadd(sum, hexp(__float2half(row[c] - top)));
    shared[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] = __hadd(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    sum = shared[0];
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        out[c] = __half2float(__hdiv(hexp(__float2half(row[c] - top)), sum));
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    in_half<<<(unsigned)call->x.shape[0], 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
