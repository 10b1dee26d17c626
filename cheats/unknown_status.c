/* Returns a status that does not exist. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    honest(call);
    return (ks_status)7;
}
