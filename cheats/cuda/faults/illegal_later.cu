/* Answers the first 20 calls, then has a kernel read an address that is not mapped.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __global__ void wild(const float *x, float *y)
{
    *y = *(const volatile float *)((uintptr_t)x ^ (uintptr_t)1 << 45);
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    static int calls;
    if (++calls > 20)
        wild<<<1, 1, 0, (cudaStream_t)call->stream>>>((const float *)call->x.data, (float *)call->y.data);
    return status;
}
