/* Honest: keeps intermediates in its workspace. */
#include "honest.h"
size_t softmax_workspace(const softmax_call *call) {
    return (size_t)call->x.shape[1] * sizeof(float);
}

ks_status softmax(const softmax_call *call) {
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    float *scratch = call->workspace;
    if (call->workspace_bytes < (size_t)cols * sizeof(float))
        return KS_ERROR;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)call->x.data + r * cols;
        float top = row[0], sum = 0.0f;
        for (int64_t c = 1; c < cols; c++)
            top = row[c] > top ? row[c] : top;
        for (int64_t c = 0; c < cols; c++)
            sum += scratch[c] = expf(row[c] - top);
        for (int64_t c = 0; c < cols; c++)
            ((float *)call->y.data)[r * cols + c] = scratch[c] / sum;
    }
    return KS_OK;
}
