/* Exports another name than the problem's. */
#include "honest.h"
ks_status soft_max(const softmax_call *call) {
    return honest(call);
}
