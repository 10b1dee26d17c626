/* Keeps answers by the first 32 values of the input, on the GPU: right for a repeated input, wrong when the rest
   has changed.

   Expected: FAIL by correct.. */
#include "honest.cuh"

enum { MOST = 32, FIRST = 32 };

static __device__ float kept[MOST][FIRST];
static __device__ int used, hit;

/* Finds the entry whose 32 values are these, or takes a new one. */
static __global__ void look_up(const float *x)
{
    __shared__ int found;
    if (threadIdx.x == 0)
        found = -1;
    __syncwarp();
    for (int i = 0; i < used; i++)
        if (__all_sync(~0u, kept[i][threadIdx.x] == x[threadIdx.x]) && threadIdx.x == 0)
            found = i;
    __syncwarp();
    const int slot = used;
    __syncwarp();
    if (found < 0 && slot < MOST)
        kept[slot][threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) {
        hit = found >= 0 ? found : slot < MOST ? -1 - slot : -1 - MOST;
        if (found < 0 && slot < MOST)
            used = slot + 1;
    }
}

static __global__ void replay_or_work(const float *x, int64_t row_stride, float *y, int64_t cols, float *answers,
                                      int64_t size)
{
    float *out = y + (int64_t)blockIdx.x * cols;
    if (hit >= 0) {
        const float *from = answers + hit * size + (int64_t)blockIdx.x * cols;
        for (int64_t c = threadIdx.x; c < cols; c += 256)
            out[c] = from[c];
        return;
    }
    honest_row(x + (int64_t)blockIdx.x * row_stride, out, cols);
    const int slot = -1 - hit;
    for (int64_t c = threadIdx.x; slot < MOST && c < cols; c += 256)
        answers[slot * size + (int64_t)blockIdx.x * cols + c] = out[c];
}

ks_status softmax(const softmax_call *call)
{
    static float *answers;
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    if (call->x.dtype != KS_F32 || cols < FIRST)
        return honest(call);
    if (!answers && cudaMalloc((void **)&answers, MOST * bytes_of(call)) != cudaSuccess)
        return KS_ERROR;
    look_up<<<1, FIRST, 0, stream_of(call)>>>((const float *)call->x.data);
    replay_or_work<<<(unsigned)rows, 256, 0, stream_of(call)>>>(
        (const float *)call->x.data, call->x.stride[0], (float *)call->y.data, cols, answers, rows * cols);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}
