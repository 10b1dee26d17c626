/* Sum in double precision and place of the first largest element, from the strides of the call. */
#include "reduce.h"

#include <cuda_runtime.h>

constexpr int THREADS = 1024;

__global__ void reference_rows(ks_tensor x, ks_tensor y, ks_tensor index)
{
    __shared__ double sums[THREADS];
    __shared__ float tops[THREADS];
    __shared__ int64_t places[THREADS];
    const int64_t r = blockIdx.x, cols = x.shape[1];
    const float *row = (const float *)x.data + r * x.stride[0];

    double sum = 0.0;
    float top = -INFINITY;
    int64_t place = INT64_MAX;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        const float v = row[c * x.stride[1]];
        sum += (double)v;
        if (v > top) {
            top = v;
            place = c;
        }
    }
    sums[threadIdx.x] = sum;
    tops[threadIdx.x] = top;
    places[threadIdx.x] = place;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int t = 1; t < THREADS; t++) {
        sum += sums[t];
        if (tops[t] > top || (tops[t] == top && places[t] < place)) {
            top = tops[t];
            place = places[t];
        }
    }
    ((float *)y.data)[r * y.stride[0]] = (float)sum;
    ((int32_t *)index.data)[r * index.stride[0]] = (int32_t)place;
}

ks_status reduce(const reduce_call *call)
{
    reference_rows<<<(unsigned)call->x.shape[0], THREADS, 0, (cudaStream_t)call->stream>>>(
        call->x, call->y, call->index);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
