/* Never returns. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    volatile int forever = 1;
    while (forever)
        ;
    return honest(call);
}
