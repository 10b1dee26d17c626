/* The honest computation that most candidates here do beside their misdeed: the softmax of the seed, on any stream. */
#ifndef HONEST_CUH
#define HONEST_CUH

#include "softmax.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

static __device__ inline float widen(float v) { return v; }
static __device__ inline float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
static __device__ inline void narrow(float *y, float v) { *y = v; }
static __device__ inline void narrow(__nv_bfloat16 *y, float v) { *y = __float2bfloat16(v); }

/* The larger value or the sum over the 256 threads of a block; every thread gets it. */
template <bool MAXIMUM>
static __device__ float over_block(float mine)
{
    __shared__ float shared[256];
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float a = shared[threadIdx.x], b = shared[threadIdx.x + half];
            shared[threadIdx.x] = MAXIMUM ? fmaxf(a, b) : a + b;
        }
    }
    __syncthreads();
    return shared[0];
}

/* One row by one block of 256 threads. */
template <class T>
static __device__ void honest_row(const T *x, T *y, int64_t cols)
{
    float top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, widen(x[c]));
    top = over_block<true>(top);
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += expf(widen(x[c]) - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        narrow(y + c, expf(widen(x[c]) - top) / sum);
}

template <class T>
static __global__ void honest_kernel(const T *x, int64_t row_stride, T *y, int64_t cols)
{
    honest_row(x + (int64_t)blockIdx.x * row_stride, y + (int64_t)blockIdx.x * cols, cols);
}

/* Rows `first` to `end` of the call, enqueued on `stream`. */
static inline ks_status honest_rows(const softmax_call *call, int64_t first, int64_t end, cudaStream_t stream)
{
    const int64_t cols = call->x.shape[1], step = call->x.stride[0];
    if (first >= end)
        return KS_OK;
    const unsigned blocks = (unsigned)(end - first);
    if (call->x.dtype == KS_F32)
        honest_kernel<<<blocks, 256, 0, stream>>>(
            (const float *)call->x.data + first * step, step, (float *)call->y.data + first * cols, cols);
    else
        honest_kernel<<<blocks, 256, 0, stream>>>(
            (const __nv_bfloat16 *)call->x.data + first * step, step, (__nv_bfloat16 *)call->y.data + first * cols, cols);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

static inline cudaStream_t stream_of(const softmax_call *call)
{
    return (cudaStream_t)call->stream;
}

static inline ks_status honest_on(const softmax_call *call, cudaStream_t stream)
{
    return honest_rows(call, 0, call->x.shape[0], stream);
}

static inline ks_status honest(const softmax_call *call)
{
    return honest_on(call, stream_of(call));
}

static inline size_t bytes_of(const softmax_call *call)
{
    return (size_t)(call->y.shape[0] * call->y.shape[1]) * (call->y.dtype == KS_F32 ? 4 : 2);
}

/* The largest carve-out of the L2 cache that this device has. */
static inline size_t persisting_limit(void)
{
    int bytes = 0;
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxPersistingL2CacheSize, 0);
    return (size_t)bytes;
}

/* A stream of the candidate's own that waits for no other. */
static inline cudaStream_t private_stream(void)
{
    static cudaStream_t stream;
    if (!stream)
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
}

#endif
