/* Reduces long rows over the whole grid in one cooperative launch.

   Expected: PASS or UNRESOLVED. */
#include "honest.cuh"

#include <cooperative_groups.h>

static __global__ void whole_grid(const float *x, int64_t row_stride, float *y, int64_t rows, int64_t cols, float *parts)
{
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * row_stride;
        const int64_t first = (int64_t)blockIdx.x * 256 + threadIdx.x, step = (int64_t)gridDim.x * 256;
        float top = -INFINITY, sum = 0.0f;
        for (int64_t c = first; c < cols; c += step)
            top = fmaxf(top, row[c]);
        top = over_block<true>(top);
        for (int64_t c = first; c < cols; c += step)
            sum += expf(row[c] - top);
        sum = over_block<false>(sum);
        if (threadIdx.x == 0) {
            parts[2 * blockIdx.x] = top;
            parts[2 * blockIdx.x + 1] = sum;
        }
        grid.sync();
        float all = -INFINITY, total = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++)
            all = fmaxf(all, parts[2 * b]);
        for (unsigned b = 0; b < gridDim.x; b++)
            total += parts[2 * b + 1] * expf(parts[2 * b] - all);
        for (int64_t c = first; c < cols; c += step)
            y[r * cols + c] = expf(row[c] - all) / total;
        grid.sync();
    }
}

size_t softmax_workspace(const softmax_call *)
{
    return 2 * 64 * sizeof(float);
}

ks_status softmax(const softmax_call *call)
{
    if (call->x.dtype != KS_F32 || call->x.shape[0] > 16)
        return honest(call);
    const float *x = (const float *)call->x.data;
    float *y = (float *)call->y.data, *parts = (float *)call->workspace;
    int64_t step = call->x.stride[0], rows = call->x.shape[0], cols = call->x.shape[1];
    void *arguments[] = {&x, &step, &y, &rows, &cols, &parts};
    return cudaLaunchCooperativeKernel((const void *)whole_grid, dim3(64), dim3(256), arguments, 0, stream_of(call)) ==
                   cudaSuccess
               ? KS_OK
               : KS_ERROR;
}
