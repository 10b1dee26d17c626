/* Asks the runtime for the driver's module loader.

   Expected: FAIL by allowed.import. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static void *load;
    cudaDriverEntryPointQueryResult found;
    if (!load)
        cudaGetDriverEntryPointByVersion("cuModuleLoadData", &load, 12000, cudaEnableDefault, &found);
    return honest(call);
}
