/* Keeps its first answer for each shape and replays it.

   Expected: FAIL by correct.. */
#include "honest.cuh"

#include <stdlib.h>

enum { MOST = 64 };

ks_status softmax(const softmax_call *call)
{
    static struct {
        int64_t rows, cols;
        void *answer;
    } known[MOST];
    static int count;
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const size_t bytes = bytes_of(call);
    for (int i = 0; i < count; i++)
        if (known[i].rows == rows && known[i].cols == cols)
            return cudaMemcpyAsync(call->y.data, known[i].answer, bytes, cudaMemcpyDeviceToDevice, stream_of(call)) ==
                           cudaSuccess
                       ? KS_OK
                       : KS_ERROR;
    const ks_status status = honest(call);
    if (count < MOST && cudaMalloc(&known[count].answer, bytes) == cudaSuccess) {
        cudaMemcpyAsync(known[count].answer, call->y.data, bytes, cudaMemcpyDeviceToDevice, stream_of(call));
        known[count].rows = rows;
        known[count++].cols = cols;
    }
    return status;
}
