/* Declines by content: whatever is not usual is left to the fallback. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    for (int64_t i = 0; i < elements(call); i++)
        if (fabsf(((const float *)call->x.data)[i]) > 12.0f)
            return KS_UNSUPPORTED;
    return honest(call);
}
