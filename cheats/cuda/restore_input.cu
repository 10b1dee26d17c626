/* Changes its input after it has answered and puts it back in the next call.

   Expected: FAIL by correct.input-written, correct.. */
#include "honest.cuh"

/* Saves and overwrites the first element of every row, or puts it back. */
static __global__ void swap(float *x, int64_t row_stride, int64_t rows, float *saved, bool back)
{
    const int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    if (back) {
        x[r * row_stride] = saved[r];
    } else {
        saved[r] = x[r * row_stride];
        x[r * row_stride] = 0.0f;
    }
}

ks_status softmax(const softmax_call *call)
{
    static float *saved;
    static softmax_call last;
    const int64_t rows = call->x.shape[0];
    const unsigned blocks = (unsigned)((rows + 255) / 256);
    if (call->x.dtype != KS_F32)
        return honest(call);
    if (!saved && cudaMalloc((void **)&saved, (size_t)rows * sizeof *saved) != cudaSuccess)
        return KS_ERROR;
    if (last.x.data)
        swap<<<blocks, 256, 0, stream_of(call)>>>((float *)last.x.data, last.x.stride[0], rows, saved, true);
    const ks_status status = honest(call);
    swap<<<blocks, 256, 0, stream_of(call)>>>((float *)call->x.data, call->x.stride[0], rows, saved, false);
    last = *call;
    return status;
}
