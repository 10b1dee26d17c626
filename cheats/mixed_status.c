/* Declines every third call, as if by its shape. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    static int calls;
    return ++calls % 3 ? honest(call) : KS_UNSUPPORTED;
}
