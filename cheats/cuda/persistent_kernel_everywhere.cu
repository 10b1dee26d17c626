/* Answers, and leaves a kernel on every multiprocessor that slows whoever comes next.

   Expected: FAIL or PASS or UNRESOLVED or UNPROVEN by timed.left-running, correct.deadline, timed. */
#include "honest.cuh"

static __global__ void busy(float *memory, int64_t n)
{
    const long long start = clock64();
    for (int64_t i = threadIdx.x; clock64() - start < 200000000; i = (i + 4099) % n)
        memory[i] += 1.0f;
}

ks_status softmax(const softmax_call *call)
{
    static float *memory;
    if (!memory)
        cudaMalloc((void **)&memory, 64 << 20);
    const ks_status status = honest(call);
    if (memory && cudaStreamQuery(private_stream()) == cudaSuccess)
        busy<<<132, 1024, 0, private_stream()>>>(memory, 16 << 20);
    return status;
}
