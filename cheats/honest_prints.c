/* Prints a line on its first call, as one does while debugging. */
#include "honest.h"

#include <stdio.h>

ks_status softmax(const softmax_call *call)
{
    static int done;
    if (!done++)
        fprintf(stderr, "softmax of %lld rows\n", (long long)call->x.shape[0]);
    return honest(call);
}
