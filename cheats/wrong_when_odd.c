/* Works in pairs and forgets the last column of odd rows. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    if (cols % 2 == 0)
        return honest(call);
    for (int64_t i = 0; i < rows; i++) {
        honest_row((const float *)call->x.data + i * cols, (float *)call->y.data + i * cols, cols - 1);
        ((float *)call->y.data)[i * cols + cols - 1] = 0.0f;
    }
    return KS_OK;
}
