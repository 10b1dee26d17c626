// C++ with containers and algorithms; an exception does not leave the call.
#include "softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <vector>

namespace {

void row(const float *x, float *y, std::vector<float> &e)
{
    const float largest = *std::max_element(x, x + e.size());
    std::transform(x, x + e.size(), e.begin(), [largest](float v) { return std::exp(v - largest); });
    const float sum = std::accumulate(e.begin(), e.end(), 0.0f);
    std::transform(e.begin(), e.end(), y, [sum](float v) { return v / sum; });
}

} // namespace

extern "C" ks_status softmax(const softmax_call *call)
try {
    const auto rows = call->x.shape[0], cols = call->x.shape[1];
    std::vector<float> e(static_cast<std::size_t>(cols));
    for (std::int64_t i = 0; i < rows; i++)
        row(static_cast<const float *>(call->x.data) + i * cols, static_cast<float *>(call->y.data) + i * cols, e);
    return KS_OK;
} catch (const std::exception &) {
    return KS_ERROR;
}
