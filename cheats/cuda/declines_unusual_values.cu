/* Declines inputs of unusual magnitude, which is no matter of shapes. It reads them on the host, before the stream
   of the call gets there

   Expected: FAIL by correct.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    float first[16];
    if (cudaMemcpy(first, call->x.data, sizeof first, cudaMemcpyDeviceToHost) != cudaSuccess)
        return KS_ERROR;
    for (int i = 0; i < 16; i++)
        if (fabsf(first[i]) > 20.0f)
            return KS_UNSUPPORTED;
    return honest(call);
}
