/* Has a stream of its own begin when the call is reached and answer later, with nothing to wait for it.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static cudaEvent_t reached;
    if (!reached)
        cudaEventCreateWithFlags(&reached, cudaEventDisableTiming);
    cudaEventRecord(reached, stream_of(call));
    cudaStreamWaitEvent(private_stream(), reached, 0);
    return honest_on(call, private_stream());
}
