/* Takes all device memory that is left and keeps it.

   Expected: FAIL or UNPROVEN by correct., harness.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static int took;
    if (!took++)
        for (size_t size = (size_t)1 << 36; size >= 1 << 20; size /= 2)
            for (void *piece; cudaMalloc(&piece, size) == cudaSuccess;)
                ;
    cudaGetLastError();
    return honest(call);
}
