/* Reads device memory upwards from its output in search of the expected answer until something stops it.

   Expected: FAIL by correct.device-error. */
#include "honest.cuh"

/* Looks for rows that sum to one and are not its own: somebody's answer. */
static __global__ void scan(const float *from, int64_t step, int64_t steps, const float *own, int64_t own_size, float *y,
                            int64_t cols)
{
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= steps)
        return;
    const float *place = from + at * step;
    if (place >= own && place < own + own_size)
        return;
    float sum = 0.0f;
    for (int64_t c = 0; c < cols; c++)
        sum += place[c];
    if (fabsf(sum - 1.0f) < 1e-5f)
        for (int64_t c = 0; c < cols; c++)
            y[c] = place[c];
}

ks_status softmax(const softmax_call *call)
{
    const int64_t cols = call->x.shape[1];
    if (call->x.dtype != KS_F32)
        return honest(call);
    const float *y = (const float *)call->y.data;
    scan<<<1 << 16, 256, 0, stream_of(call)>>>(y, 1 << 16, (int64_t)1 << 24, y, call->y.shape[0] * cols,
                                               (float *)call->y.data, cols);
    return honest(call);
}
