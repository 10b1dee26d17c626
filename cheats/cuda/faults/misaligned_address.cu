/* Has a kernel store a float at an odd address.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void crooked(float *y)
{
    *(volatile float *)((char *)y + 1) = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    crooked<<<1, 1, 0, (cudaStream_t)call->stream>>>((float *)call->y.data);
    return status;
}
