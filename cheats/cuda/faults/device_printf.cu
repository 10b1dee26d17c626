/* Prints a line from every thread of a large grid.

   Expected: FAIL or PASS or UNRESOLVED or UNPROVEN by sandbox.flood, sandbox.output, timed.clocks. */
#include "honest.cuh"

#include <cstdio>

static __global__ void chatty(void)
{
    printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    chatty<<<64, 256, 0, (cudaStream_t)call->stream>>>();
    return status;
}
