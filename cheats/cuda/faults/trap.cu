/* Executes a trap in one thread.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void trapped(void)
{
    __trap();
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    trapped<<<1, 32, 0, (cudaStream_t)call->stream>>>();
    return status;
}
