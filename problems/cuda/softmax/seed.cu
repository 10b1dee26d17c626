/* Row-wise softmax the way one writes it first: one block for each row, three passes over it. */
#include "softmax.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ float value(const float *x) { return *x; }
__device__ float value(const __nv_bfloat16 *x) { return __bfloat162float(*x); }
__device__ void put(float *y, float v) { *y = v; }
__device__ void put(__nv_bfloat16 *y, float v) { *y = __float2bfloat16(v); }

/* Combines one value of each thread by halves; every thread gets the result. */
template <bool MAXIMUM>
__device__ float over_block(float mine)
{
    __shared__ float shared[THREADS];
    __syncthreads();
    shared[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float a = shared[threadIdx.x], b = shared[threadIdx.x + half];
            shared[threadIdx.x] = MAXIMUM ? fmaxf(a, b) : a + b;
        }
    }
    __syncthreads();
    return shared[0];
}

template <class T>
__global__ void softmax_rows(const T *x, int64_t row_stride, T *y, int64_t cols)
{
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    T *out = y + (int64_t)blockIdx.x * cols;

    float top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        top = fmaxf(top, value(row + c));
    top = over_block<true>(top);

    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        sum += expf(value(row + c) - top);
    sum = over_block<false>(sum);

    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        put(out + c, expf(value(row + c) - top) / sum);
}

template <class T>
ks_status run(const softmax_call *call)
{
    softmax_rows<T><<<(unsigned)call->x.shape[0], THREADS, 0, (cudaStream_t)call->stream>>>(
        (const T *)call->x.data, call->x.stride[0], (T *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

ks_status softmax(const softmax_call *call)
{
    return call->x.dtype == KS_F32 ? run<float>(call) : run<__nv_bfloat16>(call);
}
