/* Computes on a stream of its own and waits for it before it returns, long before the stream of the call gets
   there.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest_on(call, private_stream());
    return cudaStreamSynchronize(private_stream()) == cudaSuccess ? status : KS_ERROR;
}
