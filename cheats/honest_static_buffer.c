/* Keeps a scratch buffer between calls; nothing in it outlives a call. */
#include "honest.h"

#include <string.h>

ks_status softmax(const softmax_call *call)
{
    static float scratch[1 << 17];
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    if (cols > (int64_t)(sizeof scratch / sizeof *scratch))
        return honest(call);
    for (int64_t i = 0; i < rows; i++) {
        honest_row((const float *)call->x.data + i * cols, scratch, cols);
        memcpy((float *)call->y.data + i * cols, scratch, (size_t)cols * sizeof(float));
    }
    return KS_OK;
}
