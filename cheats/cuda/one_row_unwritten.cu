/* Leaves one row in the middle unwritten.

   Expected: FAIL by correct.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], middle = rows / 2;
    const ks_status status = honest_rows(call, 0, middle, stream_of(call));
    return status == KS_OK ? honest_rows(call, middle + 1, rows, stream_of(call)) : status;
}
