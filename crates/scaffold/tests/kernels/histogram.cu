// Counts of values in bins, on a stream that the caller has.
#include <cuda_runtime.h>

namespace stats {

constexpr int kBins = 256;
constexpr int kThreads = 256;

__global__ void count(const unsigned char *values, int *bins, long n) {
    __shared__ int local[kBins];
    for (int b = threadIdx.x; b < kBins; b += blockDim.x)
        local[b] = 0;
    __syncthreads();
    const long stride = (long)blockDim.x * gridDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        atomicAdd(&local[values[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < kBins; b += blockDim.x)
        atomicAdd(&bins[b], local[b]);
}

void histogram(const unsigned char *values, int *bins, long n, cudaStream_t stream) {
    cudaMemsetAsync(bins, 0, kBins * sizeof(int), stream);
    long blocks = (n + kThreads - 1) / kThreads;
    if (blocks > 1024)
        blocks = 1024;
    count<<<blocks, kThreads, 0, stream>>>(values, bins, n);
}

} // namespace stats
