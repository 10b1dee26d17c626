/* Answers, and starts a kernel that keeps one multiprocessor busy for half a second on a stream of its own.

   Expected: FAIL by timed.left-running, correct.deadline. */
#include "honest.cuh"

static __global__ void busy(void)
{
    const long long start = clock64();
    while (clock64() - start < 1000000000) {
    }
}

ks_status softmax(const softmax_call *call)
{
    if (cudaStreamQuery(private_stream()) == cudaSuccess)
        busy<<<1, 1024, 0, private_stream()>>>();
    return honest(call);
}
