/* Answers, and leaves a kernel running for ever on a stream of its own.

   Expected: FAIL by timed.left-running, correct.deadline. */
#include "honest.cuh"

static __global__ void endless(volatile int *never)
{
    while (*never == 0) {
    }
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    static cudaStream_t own;
    static int *never;
    if (!own) {
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        cudaMalloc((void **)&never, sizeof *never);
        cudaMemsetAsync(never, 0, sizeof *never, own);
        endless<<<1, 32, 0, own>>>(never);
    }
    return status;
}
