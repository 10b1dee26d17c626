/* Writes 64 KiB past the end of its output. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    ((float *)call->y.data)[elements(call) + (1 << 14)] = 1.0f;
    return status;
}
