/* Answers KS_ERROR.

   Expected: FAIL by correct.status. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    return KS_ERROR;
}
