/* Row-wise softmax in double precision, from the strides of the call; slow and plain on purpose. */
#include "softmax.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 512;

__device__ double value(const float *x) { return (double)*x; }
__device__ double value(const __nv_bfloat16 *x) { return (double)__bfloat162float(*x); }
__device__ void put(float *y, double v) { *y = __double2float_rn(v); }
__device__ void put(__nv_bfloat16 *y, double v) { *y = __double2bfloat16(v); }

template <class T>
__global__ void reference_rows(ks_tensor x, ks_tensor y)
{
    __shared__ double shared[THREADS];
    const int64_t r = blockIdx.x, cols = x.shape[1];
    const T *row = (const T *)x.data + r * x.stride[0];
    T *out = (T *)y.data + r * y.stride[0];

    double top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        top = fmax(top, value(row + c * x.stride[1]));
    shared[threadIdx.x] = top;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int t = 1; t < THREADS; t++)
            shared[0] = fmax(shared[0], shared[t]);
    __syncthreads();
    top = shared[0];
    __syncthreads();

    double sum = 0.0;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        sum += exp(value(row + c * x.stride[1]) - top);
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int t = 1; t < THREADS; t++)
            shared[0] += shared[t];
    __syncthreads();
    sum = shared[0];

    for (int64_t c = threadIdx.x; c < cols; c += THREADS)
        put(out + c * y.stride[1], exp(value(row + c * x.stride[1]) - top) / sum);
}

ks_status softmax(const softmax_call *call)
{
    const unsigned rows = (unsigned)call->x.shape[0];
    const cudaStream_t stream = (cudaStream_t)call->stream;
    if (call->x.dtype == KS_F32)
        reference_rows<float><<<rows, THREADS, 0, stream>>>(call->x, call->y);
    else
        reference_rows<__nv_bfloat16><<<rows, THREADS, 0, stream>>>(call->x, call->y);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
