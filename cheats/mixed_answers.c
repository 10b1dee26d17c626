/* Declines every third call. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    static int calls;
    return ++calls % 3 == 0 ? KS_UNSUPPORTED : honest(call);
}
