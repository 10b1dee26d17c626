/* What the faults here do when they do no harm: the softmax of the seed, single precision. */
#ifndef FAULTS_HONEST_CUH
#define FAULTS_HONEST_CUH

#include "softmax.h"

#include <cuda_runtime.h>

template <bool MAXIMUM>
static __device__ float over_block(float mine)
{
    __shared__ float shared[256];
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float a = shared[threadIdx.x], b = shared[threadIdx.x + half];
            shared[threadIdx.x] = MAXIMUM ? fmaxf(a, b) : a + b;
        }
    }
    __syncthreads();
    return shared[0];
}

static __global__ void honest_kernel(const float *x, int64_t row_stride, float *y, int64_t cols)
{
    x += (int64_t)blockIdx.x * row_stride;
    y += (int64_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, x[c]);
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += expf(x[c] - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        y[c] = expf(x[c] - top) / sum;
}

static inline ks_status honest(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return KS_UNSUPPORTED;
    honest_kernel<<<(unsigned)call->x.shape[0], 256, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

#endif
