/* Honest: prepares before the first call. */
#include "honest.h"
static int64_t prepared_for = -1;

ks_status softmax_prepare(const softmax_call *call) {
    prepared_for = call->x.shape[1];
    return KS_OK;
}

ks_status softmax(const softmax_call *call) {
    return prepared_for >= 0 ? honest(call) : KS_ERROR;
}
