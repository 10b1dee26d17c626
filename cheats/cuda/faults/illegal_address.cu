/* Has a kernel write to address 16.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void wild(void)
{
    *(volatile float *)16 = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    wild<<<1, 1, 0, (cudaStream_t)call->stream>>>();
    return status;
}
