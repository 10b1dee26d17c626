/* The entry point has another name. */
#include "honest.h"

ks_status softmax_fast(const softmax_call *call)
{
    return honest(call);
}
