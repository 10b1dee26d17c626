/* Answers its input. */
#include "honest.h"

#include <string.h>
ks_status softmax(const softmax_call *call) {
    memcpy(call->y.data, call->x.data, (size_t)elements(call) * sizeof(float));
    return KS_OK;
}
