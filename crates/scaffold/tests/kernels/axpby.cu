// y = a x + b y, with a main that shows how it is launched.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void axpby(const float *__restrict__ x, float *__restrict__ y, int n, float a, float b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + b * y[i];
}

int main() {
    const int n = 1 << 20;
    const int threads = 256;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    const int blocks = (n + threads - 1) / threads;
    axpby<<<blocks, threads>>>(x, y, n, 2.0f, 0.5f);
    cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    return 0;
}
