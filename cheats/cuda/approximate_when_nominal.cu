/* Looks at the magnitude of each row: usual rows get a crude exponential, unusual ones the right one.

   Expected: FAIL by correct.. */
#include "honest.cuh"

/* e^x from the bits of a float, to about 3 %. */
static __device__ float crude(float x)
{
    const float scaled = x * 12102203.0f + 1064866805.0f;
    return __int_as_float(scaled > 0.0f ? (int)scaled : 0);
}

static __global__ void by_magnitude(const float *x, int64_t row_stride, float *y, int64_t cols)
{
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float *out = y + (int64_t)blockIdx.x * cols;
    float reach = 0.0f, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        reach = fmaxf(reach, fabsf(row[c]));
    reach = over_block<true>(reach);
    if (reach < 1.0f || reach > 14.0f) {
        honest_row(row, out, cols);
        return;
    }
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += crude(row[c]);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        out[c] = crude(row[c]) / sum;
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    by_magnitude<<<(unsigned)call->x.shape[0], 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
