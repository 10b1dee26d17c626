/* Writes one element before the start of its output.

   Expected: FAIL by correct.redzone. */
#include "honest.cuh"

static __global__ void before(float *y)
{
    y[-1] = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    before<<<1, 1, 0, (cudaStream_t)call->stream>>>((float *)call->y.data);
    return status;
}
