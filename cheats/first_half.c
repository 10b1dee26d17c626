/* Computes the first half of the rows. */
#include "honest.h"

#include <string.h>
ks_status softmax(const softmax_call *call) {
    const int64_t half = call->x.shape[0] / 2;
    honest_rows(call, 0, half);
    memset((float *)call->y.data + half * call->x.shape[1], 0, (size_t)((call->x.shape[0] - half) * call->x.shape[1]) * sizeof(float));
    return KS_OK;
}
