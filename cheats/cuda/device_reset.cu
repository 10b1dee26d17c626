/* Resets the device and sets flags of its own.

   Expected: FAIL by allowed.import, correct.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static int calls;
    if (++calls == 3) {
        cudaDeviceReset();
        cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync);
    }
    return honest(call);
}
