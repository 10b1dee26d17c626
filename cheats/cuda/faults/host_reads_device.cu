/* Reads its input on the host, which cannot reach it.

   Expected: FAIL by correct.crash. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const float first = *(const volatile float *)call->x.data;
    return first > 1e30f ? KS_ERROR : honest(call);
}
