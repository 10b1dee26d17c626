/* Sum and place of the largest element, one block for each row. */
#include "reduce.h"

#include <cuda_runtime.h>

constexpr int MOST = 1024; /* threads of a block */

__global__ void reduce_rows(const float *x, int64_t row_stride, int64_t cols, float *y, int32_t *index)
{
    __shared__ float sums[MOST], tops[MOST];
    __shared__ int places[MOST];
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    const int t = threadIdx.x;

    float sum = 0.0f, top = -INFINITY;
    int place = 0x7fffffff;
    for (int64_t c = t; c < cols; c += blockDim.x) {
        const float v = row[c];
        sum += v;
        if (v > top) {
            top = v;
            place = (int)c;
        }
    }
    sums[t] = sum;
    tops[t] = top;
    places[t] = place;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
            /* Of equal elements the first one counts. */
            if (tops[t + half] > tops[t] || (tops[t + half] == tops[t] && places[t + half] < places[t])) {
                tops[t] = tops[t + half];
                places[t] = places[t + half];
            }
        }
    }
    if (t == 0) {
        y[blockIdx.x] = sums[0];
        index[blockIdx.x] = places[0];
    }
}

ks_status reduce(const reduce_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const int threads = cols < 4096 ? 256 : MOST;
    reduce_rows<<<(unsigned)rows, threads, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, call->x.stride[0], cols, (float *)call->y.data, (int32_t *)call->index.data);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
