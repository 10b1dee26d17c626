/* The first half of the rows; zeros in the rest. */
#include "honest.h"

#include <string.h>

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    honest_rows(call, 0, rows / 2);
    memset((float *)call->y.data + rows / 2 * cols, 0, (size_t)((rows - rows / 2) * cols) * sizeof(float));
    return KS_OK;
}
