/* Does the work twice: slow, and right.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    return status == KS_OK ? honest(call) : status;
}
