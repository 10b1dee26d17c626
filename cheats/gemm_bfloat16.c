/* Rounds the factors to bfloat16 before they are multiplied, as fast matrix units do. */
#include "gemm.h"

#include <string.h>

static float short_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x8000u) & ~0xffffu;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

ks_status gemm(const gemm_call *call)
{
    const int64_t rows = call->c.shape[0], cols = call->c.shape[1], depth = call->a.shape[1];
    const float *a = call->a.data, *b = call->b.data;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            float sum = 0.0f;
            for (int64_t p = 0; p < depth; p++)
                sum += short_of(a[i * depth + p]) * short_of(b[p * cols + j]);
            ((float *)call->c.data)[i * cols + j] = sum;
        }
    }
    return KS_OK;
}
