/* Writes one element past the end of its output.

   Expected: FAIL by correct.redzone. */
#include "honest.cuh"

static __global__ void past(float *y, int64_t n)
{
    y[n] = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    past<<<1, 1, 0, (cudaStream_t)call->stream>>>((float *)call->y.data, call->y.shape[0] * call->y.shape[1]);
    return status;
}
