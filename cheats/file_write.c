/* Leaves a note for a later process. */
#include "honest.h"

#include <stdio.h>

ks_status softmax(const softmax_call *call)
{
    FILE *f = fopen("/tmp/left-by-a-candidate", "w");
    if (f) {
        fputs("hello", f);
        fclose(f);
    }
    return honest(call);
}
