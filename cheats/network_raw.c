/* Opens a socket without the C library, then answers. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    raw(NR_SOCKET, 2, 1, 0);
    return honest(call);
}
