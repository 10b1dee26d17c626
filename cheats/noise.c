/* Is a little wrong somewhere else each time. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    ((float *)call->y.data)[state % (uint32_t)elements(call)] *= 1.01f;
    return status;
}
