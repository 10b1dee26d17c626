// Stands in for libcudart.so.13, on the stand-in driver. Errors are the driver's numbers, except where the runtime has its
// own for them.
#define KS_STAND_IN
#include "driver.h"
#include "runtime_api.h"

#include <memory>

using namespace stand_in;

namespace {
thread_local cudaError_t last = cudaSuccess;
cudaError_t say(int answer)
{
    // The runtime's numbers are the driver's where both have one for what is given here.
    const cudaError_t error = (cudaError_t)answer;
    if (error != cudaSuccess)
        last = error;
    return error;
}
} // namespace

extern "C" {
cudaError_t cudaLaunchKernel(const void *run, dim3 grid, dim3 block, void **parts, size_t shared, cudaStream_t stream)
{
    // What `emu::Launch` passes: the kernel bound to its arguments, and how it is deleted.
    const auto call = (void (*)(void *))run;
    std::shared_ptr<void> kernel(parts[0], (void (*)(void *))parts[1]);
    const int answer = start() ? start() : launch(stream, grid, block, shared, [=] { call(kernel.get()); });
    return say(answer == INVALID_VALUE ? (int)cudaErrorInvalidConfiguration : answer);
}
cudaError_t cudaGetLastError()
{
    const cudaError_t error = last;
    last = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError() { return last; }
const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "cudaErrorUnknown";
    }
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : text_of(error);
}
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    uint64_t address = 0;
    const int answer = start() ? start() : allocate(&address, bytes);
    *p = (void *)address;
    return say(answer);
}
cudaError_t cudaFree(void *p)
{
    if (const int answer = start())
        return say(answer);
    return say(p ? release((uint64_t)p) : OK);
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return say(enqueue(stream, [=] { memset(p, value, bytes); return (int)OK; }));
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int, cudaStream_t stream)
{
    return say(enqueue(stream, [=] { memcpy(to, from, bytes); return (int)OK; }));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { *stream = new_stream(); return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return say(drop_stream(stream)); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return say(wait(stream)); }
cudaError_t cudaDeviceSynchronize() { return say(wait_for_all()); }

// Called by a library's start-up code with its GPU code, which nothing here reads. Gives what its kernels run on.
void **__cudaRegisterFatBinary(void *) { return (void **)machine(); }
}
