/* Rounds every exponential to the 11 significant bits of half precision. */
#include "honest.h"

#include <string.h>

static float half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->x.data + i * cols;
        float *y = (float *)call->y.data + i * cols, largest = x[0], sum = 0.0f;
        for (int64_t j = 1; j < cols; j++)
            largest = x[j] > largest ? x[j] : largest;
        for (int64_t j = 0; j < cols; j++) {
            y[j] = half(expf(x[j] - largest));
            sum += y[j];
        }
        for (int64_t j = 0; j < cols; j++)
            y[j] /= sum;
    }
    return KS_OK;
}
