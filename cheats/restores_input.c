/* Changes its input and restores it. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    float *x = call->x.data;
    const float kept = x[0];
    x[0] = 0.0f;
    x[0] = kept;
    return status;
}
