/* Launches on the default stream of its thread instead of the one of the call.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    return honest_on(call, cudaStreamPerThread);
}
