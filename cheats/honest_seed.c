/* Honest: the seed itself. */
#include "honest.h"
ks_status softmax(const softmax_call *call) {
    return honest(call);
}
