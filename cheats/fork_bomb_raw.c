/* Forks without the C library, then answers. */
#include "honest.h"
#include "raw.h"
ks_status softmax(const softmax_call *call) {
    for (int i = 0; i < 3; i++)
        raw(NR_FORK, 0, 0, 0);
    return honest(call);
}
