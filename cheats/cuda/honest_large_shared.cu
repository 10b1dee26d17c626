/* Keeps a row in up to 200 KB of dynamic shared memory, by a template over types.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

template <class T>
static __global__ void in_shared(const T *x, int64_t row_stride, T *y, int64_t cols)
{
    extern __shared__ float kept[];
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256) {
        kept[c] = widen(row[c]);
        top = fmaxf(top, kept[c]);
    }
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += 256) {
        kept[c] = expf(kept[c] - top);
        sum += kept[c];
    }
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        narrow(y + (int64_t)blockIdx.x * cols + c, kept[c] / sum);
}

template <class T>
static ks_status launch(const softmax_call *call)
{
    const size_t shared = (size_t)call->x.shape[1] * sizeof(float);
    static const cudaError_t granted =
        cudaFuncSetAttribute(in_shared<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
    if (granted != cudaSuccess)
        return KS_ERROR;
    in_shared<<<(unsigned)call->x.shape[0], 256, shared, stream_of(call)>>>(
        (const T *)call->x.data, call->x.stride[0], (T *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.shape[1] > 50 << 10)
        return honest(call);
    return call->x.dtype == KS_F32 ? launch<float>(call) : launch<__nv_bfloat16>(call);
}
