/* y = 2 x + 1, after which every warp waits until `cycles` clock cycles have passed since it began.

   KS_GAIN_PERMILLE takes that many thousandths off the wait: two builds of this file differ in nothing else. */
#include "slowdown.h"

#include <cuda_runtime.h>

#ifndef KS_GAIN_PERMILLE
#define KS_GAIN_PERMILLE 0
#endif

static __device__ __forceinline__ void affine_then_wait(const float *x, float *y, int64_t n, long long cycles)
{
    const long long start = clock64();
    const long long wait = cycles * (1000 - KS_GAIN_PERMILLE) / 1000;
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2.0f * x[i] + 1.0f;
    while (clock64() - start < wait) {
    }
}

static __global__ void slowdown_kernel(const float *x, float *y, int64_t n, long long cycles)
{
    affine_then_wait(x, y, n, cycles);
}

ks_status slowdown(const slowdown_call *call)
{
    const int64_t n = call->x.shape[0];
    slowdown_kernel<<<(unsigned)((n + 255) / 256), 256, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, (float *)call->y.data, n, call->cycles);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
