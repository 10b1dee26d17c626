/* Never finishes loading. */
#include "honest.h"

__attribute__((constructor)) static void wait_forever(void)
{
    volatile int forever = 1;
    while (forever)
        ;
}

ks_status softmax(const softmax_call *call)
{
    return honest(call);
}
