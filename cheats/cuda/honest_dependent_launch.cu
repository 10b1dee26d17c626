/* Lets its second kernel start before the first one has ended, with the launch attribute for that.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

static __global__ void tops_of(const float *x, int64_t row_stride, int64_t cols, float *tops)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    float top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        top = fmaxf(top, row[c]);
    top = over_block<true>(top);
    if (threadIdx.x == 0)
        tops[blockIdx.x] = top;
}

static __global__ void with_tops(const float *x, int64_t row_stride, float *y, int64_t cols, const float *tops)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory"); /* until the first kernel has ended and its stores are seen */
#endif
    const float *row = x + (int64_t)blockIdx.x * row_stride;
    const float top = *(const volatile float *)&tops[blockIdx.x];
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        sum += expf(row[c] - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols; c += 256)
        y[(int64_t)blockIdx.x * cols + c] = expf(row[c] - top) / sum;
}

size_t softmax_workspace(const softmax_call *call)
{
    return (size_t)call->x.shape[0] * sizeof(float);
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    const unsigned rows = (unsigned)call->x.shape[0];
    const float *x = (const float *)call->x.data;
    float *tops = (float *)call->workspace;
    tops_of<<<rows, 256, 0, stream_of(call)>>>(x, call->x.stride[0], call->x.shape[1], tops);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(rows);
    how.blockDim = dim3(256);
    how.stream = stream_of(call);
    how.attrs = &attribute;
    how.numAttrs = 1;
    return cudaLaunchKernelEx(&how, with_tops, x, call->x.stride[0], (float *)call->y.data, call->x.shape[1],
                              (const float *)tops) == cudaSuccess
               ? KS_OK
               : KS_ERROR;
}
