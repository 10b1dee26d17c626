/* Calls abort. */
#include "honest.h"

#include <stdlib.h>
ks_status softmax(const softmax_call *call) {
    abort();
    return honest(call);
}
