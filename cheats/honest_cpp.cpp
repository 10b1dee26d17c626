/* Honest: C++ with its library. */
#include "honest.h"

#include <algorithm>
#include <vector>
extern "C" ks_status softmax(const softmax_call *call) {
    std::vector<float> copy(static_cast<size_t>(call->x.shape[1]));
    honest(call);
    std::copy_n(static_cast<float *>(call->y.data), copy.size(), copy.begin());
    return copy.empty() ? KS_ERROR : KS_OK;
}
