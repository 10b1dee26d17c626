/* Keeps the exponentials in the workspace, and a table in it from call to call.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

/* The first 256 floats hold powers of two, written once; the workspace is left alone between calls. */
template <class T>
static __global__ void with_workspace(const T *x, int64_t row_stride, T *y, int64_t cols, float *workspace)
{
    const T *row = x + (int64_t)blockIdx.x * row_stride;
    float *kept = workspace + 256 + (int64_t)blockIdx.x * cols;
    if (blockIdx.x == 0 && workspace[0] == 0.0f)
        workspace[threadIdx.x] = exp2f((float)threadIdx.x / 256.0f);
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, widen(row[c]));
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols; c += 256) {
        kept[c] = expf(widen(row[c]) - top);
        sum += kept[c];
    }
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        narrow(y + (int64_t)blockIdx.x * cols + c, kept[c] / sum);
}

size_t softmax_workspace(const softmax_call *call)
{
    return (256 + (size_t)(call->x.shape[0] * call->x.shape[1])) * sizeof(float);
}

ks_status softmax(const softmax_call *call)
{
    const unsigned rows = (unsigned)call->x.shape[0];
    float *workspace = (float *)call->workspace;
    if (call->x.dtype == KS_F32)
        with_workspace<<<rows, 256, 0, stream_of(call)>>>(
            (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1], workspace);
    else
        with_workspace<<<rows, 256, 0, stream_of(call)>>>((const __nv_bfloat16 *)call->x.data, call->x.stride[0],
                                                          (__nv_bfloat16 *)call->y.data, call->x.shape[1], workspace);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
