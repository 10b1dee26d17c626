/* y = 2 x + 1 in double precision. The wait is part of no answer, so there is none here. */
#include "slowdown.h"

#include <cuda_runtime.h>

static __global__ void reference_kernel(const float *x, float *y, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = (float)(2.0 * (double)x[i] + 1.0);
}

ks_status slowdown(const slowdown_call *call)
{
    const int64_t n = call->x.shape[0];
    reference_kernel<<<(unsigned)((n + 255) / 256), 256, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, (float *)call->y.data, n);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
