/* Breaks its context on a stream of its own, clears the error and says that all is well.

   Expected: FAIL by correct.device-error, correct.unwritten. */
#include "honest.cuh"

static __global__ void wild(void)
{
    *(volatile float *)16 = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    static cudaStream_t own;
    if (!own)
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    wild<<<1, 1, 0, own>>>();
    cudaStreamSynchronize(own);
    cudaGetLastError();
    honest(call);
    cudaGetLastError();
    return KS_OK;
}
