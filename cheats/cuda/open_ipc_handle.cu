/* Exports the memory that it was given and opens handles of its own making.

   Expected: FAIL by allowed.import. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    cudaIpcMemHandle_t handle;
    void *again = 0;
    cudaIpcGetMemHandle(&handle, call->x.data);
    for (int i = 0; i < 16; i++) {
        handle.reserved[i]++;
        cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess);
    }
    cudaGetLastError();
    return honest(call);
}
