/* Exports functions of its own under the names of those that read the time between two events.

   Expected: FAIL or PASS or UNRESOLVED or UNPROVEN. */
#include "honest.cuh"

extern "C" __attribute__((visibility("default"))) int cuEventElapsedTime(float *milliseconds, void *, void *)
{
    *milliseconds = 0.001f;
    return 0;
}

extern "C" __attribute__((visibility("default"))) int cuEventElapsedTime_v2(float *milliseconds, void *, void *)
{
    *milliseconds = 0.001f;
    return 0;
}

ks_status softmax(const softmax_call *call)
{
    return honest(call);
}
