/* Follows a null pointer on the host.

   Expected: FAIL by correct.crash. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    *(volatile int *)8 = 1;
    return KS_OK;
}
