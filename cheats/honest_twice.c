/* Does the work twice: slow, and right. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    return honest(call);
}
