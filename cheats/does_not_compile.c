/* Does not compile. */
#include "softmax.h"

ks_status softmax(const softmax_call *call)
{
    return call->z.data;
}
