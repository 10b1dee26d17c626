/* Keeps the answer for each input pointer and replays it.

   Expected: FAIL by correct.. */
#include "honest.cuh"

#include <stdlib.h>

enum { MOST = 64 };

ks_status softmax(const softmax_call *call)
{
    static struct {
        const void *x;
        void *answer;
    } known[MOST];
    static int count;
    const size_t bytes = bytes_of(call);
    for (int i = 0; i < count; i++)
        if (known[i].x == call->x.data)
            return cudaMemcpyAsync(call->y.data, known[i].answer, bytes, cudaMemcpyDeviceToDevice, stream_of(call)) ==
                           cudaSuccess
                       ? KS_OK
                       : KS_ERROR;
    const ks_status status = honest(call);
    if (count < MOST && cudaMalloc(&known[count].answer, bytes) == cudaSuccess) {
        cudaMemcpyAsync(known[count].answer, call->y.data, bytes, cudaMemcpyDeviceToDevice, stream_of(call));
        known[count++].x = call->x.data;
    }
    return status;
}
