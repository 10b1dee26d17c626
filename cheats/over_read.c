/* Counts the columns of the last row wrong by one: reads an element behind the input and uses it. */
#include "honest.h"

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    honest(call);
    const float *x = (const float *)call->x.data + (rows - 1) * cols;
    float *y = (float *)call->y.data + (rows - 1) * cols, largest = x[0], sum = 0.0f;
    for (int64_t j = 0; j <= cols; j++)
        largest = x[j] > largest ? x[j] : largest;
    for (int64_t j = 0; j <= cols; j++)
        sum += expf(x[j] - largest);
    for (int64_t j = 0; j < cols; j++)
        y[j] = expf(x[j] - largest) / sum;
    return KS_OK;
}
