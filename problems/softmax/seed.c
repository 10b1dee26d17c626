/* Row-wise softmax the way one writes it first: three passes over each row. */
#include "softmax.h"

#include <math.h>

ks_status softmax(const softmax_call *call) {
    const float *x = call->x.data;
    float *y = call->y.data;
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    for (int64_t r = 0; r < rows; r++) {
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
    return KS_OK;
}
