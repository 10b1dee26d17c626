/* Has a cluster of eight blocks share a row through distributed shared memory.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

#include <cooperative_groups.h>

enum { BLOCKS = 8 };

static __global__ void __cluster_dims__(BLOCKS, 1, 1)
    by_clusters(const float *x, int64_t row_stride, float *y, int64_t cols)
{
#if __CUDA_ARCH__ >= 900
    __shared__ float mine[2];
    const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    const int64_t r = blockIdx.x / BLOCKS, step = BLOCKS * 256;
    const float *row = x + r * row_stride;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = rank * 256 + threadIdx.x; c < cols; c += step)
        top = fmaxf(top, row[c]);
    top = over_block<true>(top);
    if (threadIdx.x == 0)
        mine[0] = top;
    cluster.sync();
    for (unsigned b = 0; b < BLOCKS; b++)
        top = fmaxf(top, *cluster.map_shared_rank(&mine[0], b));
    for (int64_t c = rank * 256 + threadIdx.x; c < cols; c += step)
        sum += expf(row[c] - top);
    sum = over_block<false>(sum);
    if (threadIdx.x == 0)
        mine[1] = sum;
    cluster.sync();
    sum = 0.0f;
    for (unsigned b = 0; b < BLOCKS; b++)
        sum += *cluster.map_shared_rank(&mine[1], b);
    for (int64_t c = rank * 256 + threadIdx.x; c < cols; c += step)
        y[r * cols + c] = expf(row[c] - top) / sum;
    cluster.sync(); /* nobody leaves while its shared memory is read */
#endif
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32)
        return honest(call);
    by_clusters<<<(unsigned)call->x.shape[0] * BLOCKS, 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, call->x.shape[1]);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
