/* The computation of the seed and nothing else. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    return honest(call);
}
