/* Has a kernel that never ends.

   Expected: FAIL by correct.deadline. */
#include "honest.cuh"

static __global__ void endless(volatile int *never)
{
    while (*never != 0x600d) {
    }
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    endless<<<1, 1, 0, (cudaStream_t)call->stream>>>((volatile int *)call->y.data);
    return status;
}
