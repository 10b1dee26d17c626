/* Has a kernel whose body was compiled for sm_80 alone.

   Expected: FAIL by correct.unwritten. */
#include "honest.cuh"

static __global__ void elsewhere(const float *x, int64_t row_stride, float *y, int64_t cols)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 800
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x)
        y[(int64_t)blockIdx.x * cols + c] = x[(int64_t)blockIdx.x * row_stride + c];
#endif
}

ks_status softmax(const softmax_call *call)
{
    elsewhere<<<(unsigned)call->x.shape[0], 256, 0, (cudaStream_t)call->stream>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
