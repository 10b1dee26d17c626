/* Opens a file for writing without the C library, then answers. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    raw(NR_OPEN, (long)"/tmp/notes", 0x241, 0600);
    return honest(call);
}
