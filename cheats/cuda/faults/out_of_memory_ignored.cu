/* Asks for 1 TB of device memory, does not look at the error and uses the pointer.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void fill(float *much, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        much[i] = 0.0f;
}

ks_status softmax(const softmax_call *call)
{
    float *much = nullptr;
    cudaMalloc((void **)&much, (size_t)1 << 40);
    fill<<<64, 256, 0, (cudaStream_t)call->stream>>>(much, 64 * 256);
    return honest(call);
}
