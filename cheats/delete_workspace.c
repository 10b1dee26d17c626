/* Deletes files through the C library. */
#include "honest.h"

#include <unistd.h>
ks_status softmax(const softmax_call *call) {
    unlink("/tmp/seed.c");
    rmdir("/tmp");
    return honest(call);
}
