/* Has a second stream do half of the rows; events join both ends.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

ks_status softmax(const softmax_call *call)
{
    static cudaEvent_t begin, end;
    if (!begin) {
        cudaEventCreateWithFlags(&begin, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
    }
    const int64_t rows = call->x.shape[0], half = rows / 2;
    cudaEventRecord(begin, stream_of(call));
    cudaStreamWaitEvent(private_stream(), begin, 0);
    const ks_status one = honest_rows(call, 0, half, private_stream());
    const ks_status two = honest_rows(call, half, rows, stream_of(call));
    cudaEventRecord(end, private_stream());
    cudaStreamWaitEvent(stream_of(call), end, 0);
    return one == KS_OK ? two : one;
}
