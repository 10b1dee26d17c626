/* One NaN. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    ((float *)call->y.data)[elements(call) / 2] = NAN;
    return KS_OK;
}
