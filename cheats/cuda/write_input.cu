/* Keeps the exponentials in the input.

   Expected: FAIL by correct.input-written. */
#include "honest.cuh"

static __global__ void in_place(float *x, int64_t row_stride, float *y, int64_t cols)
{
    float *row = x + (int64_t)blockIdx.x * row_stride, *out = y + (int64_t)blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, row[c]);
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += 256) {
        row[c] = expf(row[c] - top);
        sum += row[c];
    }
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        out[c] = row[c] / sum;
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    in_place<<<(unsigned)call->x.shape[0], 256, 0, stream_of(call)>>>(
        (float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
