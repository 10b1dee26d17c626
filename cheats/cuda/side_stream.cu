/* Answers on a stream of its own that nothing waits for.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    return honest_on(call, private_stream());
}
