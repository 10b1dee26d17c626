/* Leaves the last eighth of the rows to a stream of its own that nothing waits for.

   Expected: FAIL or UNPROVEN by correct., timed.. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], late = rows - rows / 8;
    const ks_status status = honest_rows(call, 0, late, stream_of(call));
    return status == KS_OK ? honest_rows(call, late, rows, private_stream()) : status;
}
