/* C = A B (+ bias): 16 x 16 tiles through shared memory, one element of C for each thread. */
#include "gemm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int TILE = 16;

__global__ void gemm_tiles(ks_tensor a, ks_tensor b, const float *bias, __nv_bfloat16 *c)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE + 1];
    const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t i = (int64_t)blockIdx.x * TILE + ty, j = (int64_t)blockIdx.y * TILE + tx;
    const __nv_bfloat16 *A = (const __nv_bfloat16 *)a.data, *B = (const __nv_bfloat16 *)b.data;

    float sum = 0.0f;
    for (int64_t k = 0; k < K; k += TILE) {
        left[ty][tx] = i < M && k + tx < K ? __bfloat162float(A[i * a.stride[0] + (k + tx) * a.stride[1]]) : 0.0f;
        right[ty][tx] = k + ty < K && j < N ? __bfloat162float(B[(k + ty) * b.stride[0] + j * b.stride[1]]) : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++)
            sum += left[ty][p] * right[p][tx];
        __syncthreads();
    }
    if (i < M && j < N)
        c[i * N + j] = __float2bfloat16(bias ? sum + bias[j] : sum);
}

ks_status gemm(const gemm_call *call)
{
    const dim3 grid((unsigned)((call->c.shape[0] + TILE - 1) / TILE), (unsigned)((call->c.shape[1] + TILE - 1) / TILE));
    gemm_tiles<<<grid, dim3(TILE, TILE), 0, (cudaStream_t)call->stream>>>(
        call->a, call->b, (const float *)call->bias.data, (__nv_bfloat16 *)call->c.data);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
