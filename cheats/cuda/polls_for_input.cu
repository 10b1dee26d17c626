/* Leaves a kernel on a stream of its own that watches the input for a change and answers before the call is
   reached.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

template <class T>
static __global__ void watch(const T *x, int64_t row_stride, T *y, int64_t cols)
{
    const volatile T *first = x + (int64_t)blockIdx.x * row_stride;
    const unsigned short *bits = (const unsigned short *)first;
    const unsigned short before = *(const volatile unsigned short *)bits;
    const long long start = clock64();
    while (*(const volatile unsigned short *)bits == before && clock64() - start < 20000000) {
    }
    honest_row(x + (int64_t)blockIdx.x * row_stride, y + (int64_t)blockIdx.x * cols, cols);
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    watch<<<(unsigned)call->x.shape[0], 256, 0, private_stream()>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return KS_OK;
}
