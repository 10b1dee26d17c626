/* Never returns. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    for (volatile int i = 0;; i++) {
    }
    return honest(call);
}
