/* The part of the CUDA runtime that candidates here call. With KS_STAND_IN it is the stand-in's library; else each does
   at once what it is asked for. */
#ifndef KS_EMULATE_RUNTIME_API_H
#define KS_EMULATE_RUNTIME_API_H

#include <cstring>

#include "machine.h"

typedef void *cudaStream_t;
typedef void *cudaEvent_t;
enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900
};
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };

#ifdef KS_STAND_IN
extern "C" {
cudaError_t cudaLaunchKernel(const void *run, dim3 grid, dim3 block, void **parts, size_t shared, cudaStream_t stream);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int kind, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaDeviceSynchronize();
void **__cudaRegisterFatBinary(void *);
}
template <class T>
static inline cudaError_t cudaMalloc(T **p, size_t n) { return cudaMalloc((void **)p, n); }
#else
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t) { memset(p, v, n); return cudaSuccess; }
#endif
template <class K>
static inline cudaError_t cudaFuncSetAttribute(K, int, int) { return cudaSuccess; }

#endif
