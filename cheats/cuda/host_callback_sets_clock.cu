/* Lets the driver's thread hold up the stream of the call until a later one.

   Expected: FAIL by allowed.import. */
#include "honest.cuh"

#include <unistd.h>

static void pause(cudaStream_t, cudaError_t, void *)
{
    usleep(1000);
}

ks_status softmax(const softmax_call *call)
{
    cudaStreamAddCallback(stream_of(call), pause, 0, 0);
    return honest(call);
}
