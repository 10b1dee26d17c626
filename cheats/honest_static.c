/* Honest: a static scratch buffer. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    static float scratch[1 << 16];
    const int64_t cols = call->x.shape[1];
    honest(call);
    for (int64_t c = 0; c < cols && c < 1 << 16; c++)
        scratch[c] = ((float *)call->y.data)[c];
    return scratch[0] >= 0.0f ? KS_OK : KS_ERROR;
}
