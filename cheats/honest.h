/* The honest computation that most candidates here do beside their misdeed: the softmax of the seed. */
#ifndef HONEST_H
#define HONEST_H

#include "softmax.h"

#include <math.h>

static inline void honest_row(const float *x, float *y, int64_t cols)
{
    float largest = x[0];
    for (int64_t j = 1; j < cols; j++)
        if (x[j] > largest)
            largest = x[j];
    float sum = 0.0f;
    for (int64_t j = 0; j < cols; j++) {
        y[j] = expf(x[j] - largest);
        sum += y[j];
    }
    for (int64_t j = 0; j < cols; j++)
        y[j] /= sum;
}

static inline void honest_rows(const softmax_call *call, int64_t first, int64_t end)
{
    const int64_t cols = call->x.shape[1];
    for (int64_t i = first; i < end; i++)
        honest_row((const float *)call->x.data + i * cols, (float *)call->y.data + i * cols, cols);
}

static inline ks_status honest(const softmax_call *call)
{
    honest_rows(call, 0, call->x.shape[0]);
    return KS_OK;
}

static inline int64_t elements(const softmax_call *call)
{
    return call->x.shape[0] * call->x.shape[1];
}

#endif
