/* Leaves out the maximum: right for usual inputs, overflows for large ones. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols, sum = 0.0f;
        for (int64_t j = 0; j < cols; j++)
            sum += y[j] = expf(x[j]);
        for (int64_t j = 0; j < cols; j++)
            y[j] /= sum;
    }
    return KS_OK;
}
