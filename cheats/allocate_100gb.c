/* Allocates 100 GB and writes to every page, whatever malloc says. */
#include "honest.h"

#include <stdlib.h>

ks_status softmax(const softmax_call *call)
{
    const size_t bytes = (size_t)100 << 30;
    volatile char *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        p[i] = 1;
    free((void *)p);
    return honest(call);
}
