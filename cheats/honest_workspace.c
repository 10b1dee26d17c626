/* Keeps the exponentials of a row in the workspace and writes each output once. */
#include "honest.h"

size_t softmax_workspace(const softmax_call *call)
{
    return (size_t)call->x.shape[1] * sizeof(float);
}

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    float *e = call->workspace;
    if (call->workspace_bytes < softmax_workspace(call))
        return KS_ERROR;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols, largest = x[0], sum = 0.0f;
        for (int64_t j = 1; j < cols; j++)
            largest = x[j] > largest ? x[j] : largest;
        for (int64_t j = 0; j < cols; j++)
            sum += e[j] = expf(x[j] - largest);
        for (int64_t j = 0; j < cols; j++)
            y[j] = e[j] / sum;
    }
    return KS_OK;
}
