/* Interleaves gamma and beta in the workspace whenever they change. */
#include "layernorm.h"

#include <math.h>

size_t layernorm_workspace(const layernorm_call *call)
{
    return 2 * (size_t)call->x.shape[1] * sizeof(float);
}

ks_status layernorm_prepare(const layernorm_call *call)
{
    float *pairs = call->workspace;
    if (call->workspace_bytes < layernorm_workspace(call))
        return KS_ERROR;
    for (int64_t j = 0; j < call->x.shape[1]; j++) {
        pairs[2 * j] = ((const float *)call->gamma.data)[j];
        pairs[2 * j + 1] = ((const float *)call->beta.data)[j];
    }
    return KS_OK;
}

ks_status layernorm(const layernorm_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const float *pairs = call->workspace;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols, sum = 0.0f, squares = 0.0f;
        for (int64_t j = 0; j < cols; j++)
            sum += x[j];
        const float mean = sum / (float)cols;
        for (int64_t j = 0; j < cols; j++)
            squares += (x[j] - mean) * (x[j] - mean);
        const float rstd = 1.0f / sqrtf(squares / (float)cols + (float)call->eps);
        for (int64_t j = 0; j < cols; j++)
            y[j] = (x[j] - mean) * rstd * pairs[2 * j] + pairs[2 * j + 1];
        ((float *)call->mean.data)[i] = mean;
        ((float *)call->rstd.data)[i] = rstd;
    }
    return KS_OK;
}
