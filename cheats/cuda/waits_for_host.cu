/* Has a kernel wait until the host writes a word, which the host never does.

   Expected: FAIL by correct.deadline. */
#include "honest.cuh"

static __global__ void wait_for(volatile int *word)
{
    while (*word == 0) {
    }
}

ks_status softmax(const softmax_call *call)
{
    static int *word;
    if (!word && cudaHostAlloc((void **)&word, sizeof *word, cudaHostAllocMapped) != cudaSuccess)
        return KS_ERROR;
    *word = 0;
    wait_for<<<1, 1, 0, stream_of(call)>>>(word);
    return honest(call);
}
