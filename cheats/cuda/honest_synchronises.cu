/* Waits for the stream of the call before it returns.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    return cudaStreamSynchronize(stream_of(call)) == cudaSuccess ? status : KS_ERROR;
}
