/* Writes 64 KiB before its output. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    ((float *)call->y.data)[-(1 << 14)] = 1.0f;
    return status;
}
