/* Keeps ten bits of the fraction, as half precision does. */
#include "honest.h"

#include <string.h>
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    for (int64_t i = 0; i < elements(call); i++) {
        uint32_t bits;
        memcpy(&bits, (float *)call->y.data + i, sizeof bits);
        bits &= 0xffffe000u;
        memcpy((float *)call->y.data + i, &bits, sizeof bits);
    }
    return status;
}
