/* Allocates scratch memory in every call, in the order of the stream, and frees it.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

template <class T>
static __global__ void copy(const T *from, T *to, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    softmax_call inner = *call;
    const int64_t n = call->y.shape[0] * call->y.shape[1];
    if (cudaMallocAsync(&inner.y.data, bytes_of(call), stream_of(call)) != cudaSuccess)
        return KS_ERROR;
    const ks_status status = honest(&inner);
    copy<<<1056, 256, 0, stream_of(call)>>>((const float *)inner.y.data, (float *)call->y.data, n);
    cudaFreeAsync(inner.y.data, stream_of(call));
    return status;
}
