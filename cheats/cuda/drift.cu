/* Is right for the first 50 calls and a little off from then on.

   Expected: FAIL by correct.. */
#include "honest.cuh"

template <class T>
static __global__ void scaled(T *y, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        narrow(y + i, widen(y[i]) * 1.01f);
}

ks_status softmax(const softmax_call *call)
{
    static int calls;
    const int64_t n = call->y.shape[0] * call->y.shape[1];
    const ks_status status = honest(call);
    if (++calls > 50 && call->y.dtype == KS_F32)
        scaled<<<(unsigned)((n + 255) / 256), 256, 0, stream_of(call)>>>((float *)call->y.data, n);
    return status;
}
