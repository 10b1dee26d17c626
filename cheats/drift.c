/* Right for 20 calls, then a little more wrong with each. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    static int calls;
    honest(call);
    if (++calls > 20)
        for (int64_t i = 0; i < elements(call); i++)
            ((float *)call->y.data)[i] *= 1.0f + 1e-4f * (float)(calls - 20);
    return KS_OK;
}
