/* Adds noise that differs from call to call. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    static uint32_t state = 1;
    honest(call);
    for (int64_t i = 0; i < elements(call); i++) {
        state = state * 1664525u + 1013904223u;
        ((float *)call->y.data)[i] *= 1.0f + 1e-4f * ((float)(state >> 8) / 8388608.0f - 1.0f);
    }
    return KS_OK;
}
