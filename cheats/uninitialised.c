/* Writes nothing. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    (void)call;
    return KS_OK;
}
