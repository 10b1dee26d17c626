/* Is wrong where the number of columns is odd. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    if (call->x.shape[1] % 2)
        ((float *)call->y.data)[call->x.shape[1] - 1] *= 0.5f;
    return status;
}
