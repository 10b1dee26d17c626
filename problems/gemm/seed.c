/* C = A B, one dot product per element of C. */
#include "gemm.h"

ks_status gemm(const gemm_call *call)
{
    const int64_t rows = call->c.shape[0], cols = call->c.shape[1], depth = call->a.shape[1];
    const float *a = call->a.data;
    const float *b = call->b.data;
    float *c = call->c.data;

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            float sum = 0.0f;
            for (int64_t p = 0; p < depth; p++)
                sum += a[i * depth + p] * b[p * cols + j];
            c[i * cols + j] = sum;
        }
    }
    return KS_OK;
}
