/* Declines bf16, by dtype, and runs the others.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    return call->x.dtype == KS_F32 ? honest(call) : KS_UNSUPPORTED;
}
