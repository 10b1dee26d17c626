/* Calls somebody else's matrix product. */
#include "gemm.h"

void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

ks_status gemm(const gemm_call *call)
{
    const int m = (int)call->c.shape[0], n = (int)call->c.shape[1], k = (int)call->a.shape[1];
    cblas_sgemm(101, 111, 111, m, n, k, 1.0f, call->a.data, k, call->b.data, n, 0.0f, call->c.data, n);
    return KS_OK;
}
