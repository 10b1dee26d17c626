/* Writes one NaN. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    ((float *)call->y.data)[0] = NAN;
    return status;
}
