/* Row-wise softmax in double precision; slow and plain on purpose. */
#include "softmax.h"

#include <math.h>

ks_status softmax(const softmax_call *call) {
    const float *x = call->x.data;
    float *y = call->y.data;
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    for (int64_t r = 0; r < rows; r++) {
        double top = -INFINITY;
        for (int64_t c = 0; c < cols; c++)
            top = fmax(top, (double)x[r * cols + c]);
        double sum = 0.0;
        for (int64_t c = 0; c < cols; c++)
            sum += exp((double)x[r * cols + c] - top);
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = (float)(exp((double)x[r * cols + c] - top) / sum);
    }
    return KS_OK;
}
