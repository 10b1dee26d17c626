/* Keeps 256 MB more on every call, up to 100 GB, and writes to all of it, whatever malloc says. */
#include "honest.h"

#include <stdlib.h>

ks_status softmax(const softmax_call *call)
{
    static int calls;
    const size_t bytes = (size_t)256 << 20;
    if (calls++ < 400) {
        volatile char *p = malloc(bytes);
        for (size_t i = 0; i < bytes; i += 4096)
            p[i] = 1;
    }
    return honest(call);
}
