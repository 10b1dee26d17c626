/* Changes the previous call's output. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    static float *previous;
    if (previous != NULL && previous != call->y.data)
        previous[0] += 1.0f;
    previous = call->y.data;
    return status;
}
