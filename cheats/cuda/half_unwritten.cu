/* Writes the first half of the rows.

   Expected: FAIL by correct.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    return honest_rows(call, 0, call->x.shape[0] / 2, stream_of(call));
}
