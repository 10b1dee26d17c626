/* Writes one element too many. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    ((float *)call->y.data)[elements(call)] = 0.5f;
    return KS_OK;
}
