/* Writes through a null pointer. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    const ks_status status = honest(call);
    *(volatile int *)0 = 1;
    return status;
}
