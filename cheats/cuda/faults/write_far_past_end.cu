/* Walks past the end of its output until something stops it.

   Expected: FAIL by correct.. */
#include "honest.cuh"

static __global__ void walk(float *y)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;; i += (int64_t)gridDim.x * blockDim.x)
        y[i] = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    walk<<<1024, 256, 0, (cudaStream_t)call->stream>>>((float *)call->y.data);
    return status;
}
