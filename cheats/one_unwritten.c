/* Writes all elements but the last. */
#include "honest.h"

#include <string.h>

ks_status softmax(const softmax_call *call)
{
    float *last = (float *)call->y.data + elements(call) - 1, before;
    memcpy(&before, last, sizeof before);
    honest(call);
    memcpy(last, &before, sizeof before);
    return KS_OK;
}
