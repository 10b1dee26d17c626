/* C = A B (+ bias) in double precision, one dot product for each thread, from the strides of the call. */
#include "gemm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

__global__ void dot_products(ks_tensor a, ks_tensor b, ks_tensor bias, ks_tensor c)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, j = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= c.shape[0] || j >= c.shape[1])
        return;
    const __nv_bfloat16 *row = (const __nv_bfloat16 *)a.data + i * a.stride[0];
    const __nv_bfloat16 *col = (const __nv_bfloat16 *)b.data + j * b.stride[1];
    /* A product of two bf16 numbers is exact in double. */
    double sum = bias.data ? (double)((const float *)bias.data)[j * bias.stride[0]] : 0.0;
    for (int64_t k = 0; k < a.shape[1]; k++)
        sum += (double)__bfloat162float(row[k * a.stride[1]]) * (double)__bfloat162float(col[k * b.stride[0]]);
    ((__nv_bfloat16 *)c.data)[i * c.stride[0] + j * c.stride[1]] = __double2bfloat16(sum);
}

ks_status gemm(const gemm_call *call)
{
    const dim3 block(32, 8);
    const dim3 grid((unsigned)((call->c.shape[0] + 7) / 8), (unsigned)((call->c.shape[1] + 31) / 32));
    dot_products<<<grid, block, 0, (cudaStream_t)call->stream>>>(call->a, call->b, call->bias, call->c);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
