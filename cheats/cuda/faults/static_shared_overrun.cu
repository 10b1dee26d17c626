/* Stores far past the end of its shared memory.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void overrun(int far)
{
    __shared__ volatile int little[32];
    little[far] = 1;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    overrun<<<1, 1, 0, (cudaStream_t)call->stream>>>(1 << 20);
    return status;
}
