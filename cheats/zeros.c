/* Zeros. */
#include "honest.h"

#include <string.h>

ks_status softmax(const softmax_call *call)
{
    memset(call->y.data, 0, (size_t)elements(call) * sizeof(float));
    return KS_OK;
}
