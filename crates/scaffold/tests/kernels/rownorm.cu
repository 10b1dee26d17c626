// Every row divided by its Euclidean norm: a template, launched by a small test program.
#include <cuda_runtime.h>
#include <vector>

template <typename T>
__device__ T warp_sum(T v) {
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) rownorm(const T *in, T *out, T *norms, int rows, int cols, T eps) {
    __shared__ T partial[BLOCK / 32];
    const int row = blockIdx.x;
    const int tid = threadIdx.x;
    const T *from = in + (size_t)row * cols;
    T *to = out + (size_t)row * cols;
    T sum = 0;
    for (int c = tid; c < cols; c += BLOCK)
        sum += from[c] * from[c];
    sum = warp_sum(sum);
    if (tid % 32 == 0)
        partial[tid / 32] = sum;
    __syncthreads();
    if (tid < 32) {
        T v = tid < BLOCK / 32 ? partial[tid] : T(0);
        v = warp_sum(v);
        if (tid == 0)
            partial[0] = sqrtf(v) + eps;
    }
    __syncthreads();
    const T norm = partial[0];
    for (int c = tid; c < cols; c += BLOCK)
        to[c] = from[c] / norm;
    if (tid == 0)
        norms[row] = norm;
}

void test(const std::vector<float> &host, int m, int n) {
    float *x, *y, *z;
    cudaMalloc(&x, host.size() * sizeof(float));
    cudaMalloc(&y, host.size() * sizeof(float));
    cudaMalloc(&z, m * sizeof(float));
    cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    rownorm<float, 256><<<m, 256>>>(x, y, z, m, n, 1e-6f);
    cudaFree(x);
    cudaFree(y);
    cudaFree(z);
}
