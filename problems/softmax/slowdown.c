/* The seed, doing one row in twenty a second time: a slowdown of 5 % in the seed's own mix of instructions. The
 * self-test plants it and expects the measurement to find it. */
#define softmax seed_softmax
#include "seed.c"
#undef softmax

ks_status softmax(const softmax_call *call) {
    const ks_status status = seed_softmax(call);
    if (status != KS_OK)
        return status;
    softmax_call again = *call;
    again.x.shape[0] = again.y.shape[0] = (call->x.shape[0] + 19) / 20;
    return seed_softmax(&again);
}
