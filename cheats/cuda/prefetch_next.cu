/* Brings the inputs of other slots that it knows into the L2 cache after it has answered.

   Expected: PASS or UNRESOLVED or UNPROVEN or FAIL. */
#include "honest.cuh"

enum { MOST = 32 };

static __global__ void prefetch(const char *x, size_t bytes)
{
    for (size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 128; i < bytes;
         i += (size_t)gridDim.x * blockDim.x * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i));
}

ks_status softmax(const softmax_call *call)
{
    static const void *known[MOST];
    static int count, turn;
    int at = 0;
    while (at < count && known[at] != call->x.data)
        at++;
    if (at == count && count < MOST)
        known[count++] = call->x.data;
    const ks_status status = honest(call);
    for (int i = 0; i < 2 && count > 1; i++)
        prefetch<<<32, 256, 0, stream_of(call)>>>((const char *)known[turn++ % count], bytes_of(call));
    return status;
}
