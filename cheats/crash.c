/* Writes to address 0. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    volatile float *volatile nowhere = 0;
    *nowhere = 1.0f;
    return honest(call);
}
