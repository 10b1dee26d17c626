/* Leaves the largest element where it is, which is right until the exponential overflows.

   Expected: FAIL by correct.. */
#include "honest.cuh"

static __global__ void unstable(const float *x, int64_t row_stride, float *y, int64_t cols)
{
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += expf(row[c]);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        y[(int64_t)blockIdx.x * cols + c] = expf(row[c]) / sum;
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    unstable<<<(unsigned)call->x.shape[0], 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
