/* Reads its input with the hint that it should stay in the L2 cache.

   Expected: PASS or UNRESOLVED or UNPROVEN or FAIL. */
#include "honest.cuh"

static __device__ float stay(const float *x)
{
    float v;
    asm volatile("{\n\t.reg .b64 policy;\n\t"
                 "createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n\t"
                 "ld.global.L2::cache_hint.f32 %0, [%1], policy;\n\t}"
                 : "=f"(v)
                 : "l"(x));
    return v;
}

static __global__ void staying(const float *x, int64_t row_stride, float *y, int64_t cols)
{
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, stay(row + c));
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += expf(stay(row + c) - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        y[(int64_t)blockIdx.x * cols + c] = expf(stay(row + c) - top) / sum;
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    staying<<<(unsigned)call->x.shape[0], 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
