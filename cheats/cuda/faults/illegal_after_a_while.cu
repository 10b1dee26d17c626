/* Answers, then works on for two milliseconds and only then touches address 16.

   Expected: FAIL by correct.device-error, correct., timed.. */
#include "honest.cuh"

static __global__ void late_wild(void)
{
    const long long start = clock64();
    while (clock64() - start < 4000000) {
    }
    *(volatile float *)16 = 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    late_wild<<<1, 1, 0, (cudaStream_t)call->stream>>>();
    return status;
}
