/* Layer normalisation of every row: mean, variance about the mean, scale and shift. */
#include "layernorm.h"

#include <math.h>

ks_status layernorm(const layernorm_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const float *gamma = call->gamma.data;
    const float *beta = call->beta.data;
    float *mean = call->mean.data;
    float *rstd = call->rstd.data;

    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols;

        float sum = 0.0f;
        for (int64_t j = 0; j < cols; j++)
            sum += x[j];
        mean[i] = sum / (float)cols;
        float squares = 0.0f;
        for (int64_t j = 0; j < cols; j++) {
            const float d = x[j] - mean[i];
            squares += d * d;
        }
        rstd[i] = 1.0f / sqrtf(squares / (float)cols + (float)call->eps);
        for (int64_t j = 0; j < cols; j++)
            y[j] = (x[j] - mean[i]) * rstd[i] * gamma[j] + beta[j];
    }
    return KS_OK;
}
