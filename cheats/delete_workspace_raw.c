/* Deletes files without the C library, then answers. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    raw(NR_UNLINK, (long)"/tmp/seed.c", 0, 0);
    raw(NR_RMDIR, (long)"/tmp", 0, 0);
    return honest(call);
}
