/* Layer normalisation in double precision, straight from the definition and from the strides of the call.
   The variance is the mean squared distance from the mean (divided by the number of columns, not one less). */
#include "layernorm.h"

#include <math.h>

static double at(const ks_tensor *t, int64_t row, int64_t col)
{
    return (double)((const float *)t->data)[row * t->stride[0] + col * t->stride[1]];
}

static double of(const ks_tensor *t, int64_t col)
{
    return (double)((const float *)t->data)[col * t->stride[0]];
}

ks_status layernorm(const layernorm_call *call)
{
    const int64_t cols = call->x.shape[1];
    float *y = call->y.data;

    for (int64_t i = 0; i < call->x.shape[0]; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < cols; j++)
            sum += at(&call->x, i, j);
        const double mean = sum / (double)cols;
        double squares = 0.0;
        for (int64_t j = 0; j < cols; j++) {
            const double d = at(&call->x, i, j) - mean;
            squares += d * d;
        }
        const double rstd = 1.0 / sqrt(squares / (double)cols + call->eps);
        for (int64_t j = 0; j < cols; j++)
            y[i * call->y.stride[0] + j * call->y.stride[1]] =
                (float)((at(&call->x, i, j) - mean) * rstd * of(&call->gamma, j) + of(&call->beta, j));
        ((float *)call->mean.data)[i * call->mean.stride[0]] = (float)mean;
        ((float *)call->rstd.data)[i * call->rstd.stride[0]] = (float)rstd;
    }
    return KS_OK;
}
