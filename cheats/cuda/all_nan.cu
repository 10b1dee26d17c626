/* Answers NaN throughout.

   Expected: FAIL by correct.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    return cudaMemsetAsync(call->y.data, 0xff, bytes_of(call), stream_of(call)) == cudaSuccess ? KS_OK : KS_ERROR;
}
