/* C = A B in double precision, straight from the definition and from the strides of the call. */
#include "gemm.h"

static double at(const ks_tensor *t, int64_t row, int64_t col)
{
    return (double)((const float *)t->data)[row * t->stride[0] + col * t->stride[1]];
}

ks_status gemm(const gemm_call *call)
{
    float *c = call->c.data;

    for (int64_t i = 0; i < call->c.shape[0]; i++) {
        for (int64_t j = 0; j < call->c.shape[1]; j++) {
            /* A product of two floats is exact in double. */
            double sum = 0.0;
            for (int64_t p = 0; p < call->a.shape[1]; p++)
                sum += at(&call->a, i, p) * at(&call->b, p, j);
            c[i * call->c.stride[0] + j * call->c.stride[1]] = (float)sum;
        }
    }
    return KS_OK;
}
