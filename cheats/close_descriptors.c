/* Closes the descriptors that the process talks through. */
#include "honest.h"

#include <unistd.h>

ks_status softmax(const softmax_call *call)
{
    for (int d = 0; d < 256; d++)
        close(d);
    return honest(call);
}
