// One explicit step of the heat equation on a grid, with a launch function of its own.
#include <cuda_runtime.h>

#define TILE_X 32
#define TILE_Y 8

#define CHECK(call)                       \
    do {                                  \
        cudaError_t e = (call);           \
        if (e != cudaSuccess)             \
            return e;                     \
    } while (0)

static __device__ __forceinline__ int clampi(int v, int lo, int hi) {
    return v < lo ? lo : (v > hi ? hi : v);
}

__global__ void heat_kernel(const float *u, float *next, int height, int width, float dt) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int up = y > 0 ? y - 1 : 0, down = y + 1 < height ? y + 1 : height - 1;
    int left = x > 0 ? x - 1 : 0, right = x + 1 < width ? x + 1 : width - 1;
    float centre = u[y * width + x];
    float around = u[up * width + x] + u[down * width + x] + u[y * width + left] + u[y * width + right];
    next[y * width + x] = centre + dt * (around - 4.0f * centre);
}

cudaError_t heat_step(const float *u, float *next, int height, int width, float dt) {
    dim3 block(TILE_X, TILE_Y);
    dim3 grid((width + TILE_X - 1) / TILE_X, (height + TILE_Y - 1) / TILE_Y);
    heat_kernel<<<grid, block>>>(u, next, height, width, dt);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return cudaSuccess;
}
