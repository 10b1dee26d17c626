/* Reads one element past its input. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    volatile float beyond = ((const float *)call->x.data)[elements(call)];
    (void)beyond;
    return status;
}
