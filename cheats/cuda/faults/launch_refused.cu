/* Asks for 2048 threads a block and does not look at the error.

   Expected: FAIL by correct.unwritten, correct.device-error. */
#include "honest.cuh"

static __global__ void too_wide(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}

ks_status softmax(const softmax_call *call)
{
    too_wide<<<1, 2048, 0, (cudaStream_t)call->stream>>>((const float *)call->x.data, (float *)call->y.data);
    return KS_OK;
}
