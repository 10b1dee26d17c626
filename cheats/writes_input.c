/* Changes an element of its input. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    ((float *)call->x.data)[0] = 0.0f;
    return status;
}
