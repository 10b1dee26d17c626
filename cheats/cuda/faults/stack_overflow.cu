/* Recurses without end in a kernel.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

static __device__ __noinline__ int deeper(volatile int *seen, int depth)
{
    volatile int frame[64];
    for (int i = 0; i < 64; i++)
        frame[i] = depth + seen[0];
    return deeper(seen, depth + 1) + frame[depth % 64];
}

static __global__ void recursive(volatile int *seen)
{
    seen[1] = deeper(seen, 0);
}

ks_status softmax(const softmax_call *call)
{
    const ks_status status = honest(call);
    recursive<<<1, 1, 0, (cudaStream_t)call->stream>>>((volatile int *)call->y.data);
    return status;
}
