/* Writes one element too early. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    ((volatile float *)call->y.data)[-1] = 0.5f;
    return KS_OK;
}
