/* Asks for 100 KB of dynamic shared memory without the attribute that allows it, and does not look at the error.

   Expected: FAIL by correct.unwritten, correct.device-error. */
#include "honest.cuh"

static __global__ void greedy(const float *x, float *y, int64_t cols)
{
    extern __shared__ float row[];
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x)
        row[c] = x[blockIdx.x * cols + c];
    __syncthreads();
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x)
        y[blockIdx.x * cols + c] = row[c];
}

ks_status softmax(const softmax_call *call)
{
    greedy<<<(unsigned)call->x.shape[0], 256, 100 << 10, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, (float *)call->y.data, call->x.shape[1]);
    return KS_OK;
}
