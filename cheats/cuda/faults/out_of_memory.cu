/* Asks for 1 TB of device memory and reports that it got none.

   Expected: FAIL by correct.status. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    void *much;
    if (cudaMalloc(&much, (size_t)1 << 40) != cudaSuccess)
        return KS_ERROR;
    return honest(call);
}
