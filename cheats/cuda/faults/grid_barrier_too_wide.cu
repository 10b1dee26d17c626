/* Waits in every block for all blocks of a grid that does not fit on the GPU at once.

   Expected: FAIL by correct.deadline. */
#include "honest.cuh"

static __device__ unsigned arrived;

static __global__ void __launch_bounds__(1024) barrier(void)
{
    if (threadIdx.x == 0)
        atomicAdd(&arrived, 1);
    while (*(volatile unsigned *)&arrived < gridDim.x) {
    }
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    barrier<<<100000, 1024, 0, (cudaStream_t)call->stream>>>();
    return status;
}
