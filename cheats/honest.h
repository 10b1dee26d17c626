/* What every candidate here computes when it is not busy with something else: the seed's softmax, renamed. */
#ifndef HONEST_H
#define HONEST_H

#include "softmax.h"

#include <math.h>
#include <stddef.h>

static inline void honest_rows(const softmax_call *call, int64_t first, int64_t last) {
    const float *x = (const float *)call->x.data;
    float *y = (float *)call->y.data;
    const int64_t cols = call->x.shape[1];
    for (int64_t r = first; r < last; r++) {
        const float *row = x + r * cols;
        float *out = y + r * cols;
        float top = row[0];
        for (int64_t c = 1; c < cols; c++)
            if (row[c] > top)
                top = row[c];
        float sum = 0.0f;
        for (int64_t c = 0; c < cols; c++) {
            out[c] = expf(row[c] - top);
            sum += out[c];
        }
        for (int64_t c = 0; c < cols; c++)
            out[c] /= sum;
    }
}

static inline ks_status honest(const softmax_call *call) {
    honest_rows(call, 0, call->x.shape[0]);
    return KS_OK;
}

static inline int64_t elements(const softmax_call *call) {
    return call->x.shape[0] * call->x.shape[1];
}

#endif
