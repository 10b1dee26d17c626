/* Opens a file for writing through the C library. */
#include "honest.h"

#include <stdio.h>
ks_status softmax(const softmax_call *call) {
    FILE *file = fopen("/tmp/notes", "w");
    if (file != NULL)
        fclose(file);
    return honest(call);
}
