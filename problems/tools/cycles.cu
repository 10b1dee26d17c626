/* Confirms by the GPU's clock counter what share of the cycles a build of problems/cuda/slowdown/seed.cu saves.

   Both builds are in this program, the seed and the one with KS_TOOL_PERMILLE thousandths off. They take turns; each
   warp's cycles are read around the whole work. Prints, for each wait given on the command line, the median cycles of
   both and their ratio; ends with 1 if a ratio is more than 0.2 % off the intended one.

   kernelseek header problems/cuda/slowdown > DIR/slowdown.h
   nvcc -O3 -arch=sm_90a -IDIR -DKS_TOOL_PERMILLE=20 cycles.cu -o cycles && ./cycles 10000 40000 160000 */
#include "slowdown.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#ifndef KS_TOOL_PERMILLE
#define KS_TOOL_PERMILLE 20
#endif

namespace plain {
#define slowdown slowdown_plain
#include "../cuda/slowdown/seed.cu"
#undef slowdown
} // namespace plain
#undef KS_GAIN_PERMILLE
namespace shorter {
#define KS_GAIN_PERMILLE KS_TOOL_PERMILLE
#define slowdown slowdown_shorter
#include "../cuda/slowdown/seed.cu"
#undef slowdown
} // namespace shorter

enum { BLOCKS = 128, THREADS = 256, WARPS = BLOCKS * THREADS / 32, ROUNDS = 51 };

template <bool SHORTER>
__global__ void counted(const float *x, float *y, long long cycles, long long *taken)
{
    const long long start = clock64();
    if (SHORTER)
        shorter::affine_then_wait(x, y, BLOCKS * THREADS, cycles);
    else
        plain::affine_then_wait(x, y, BLOCKS * THREADS, cycles);
    const long long end = clock64();
    if (threadIdx.x % 32 == 0)
        taken[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = end - start;
}

static void must(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "cycles: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

static double median(std::vector<long long> &v)
{
    std::nth_element(v.begin(), v.begin() + (long)v.size() / 2, v.end());
    return (double)v[v.size() / 2];
}

int main(int argc, char **argv)
{
    float *x, *y;
    long long *taken;
    must(cudaMalloc(&x, BLOCKS * THREADS * sizeof *x));
    must(cudaMalloc(&y, BLOCKS * THREADS * sizeof *y));
    must(cudaMalloc(&taken, WARPS * sizeof *taken));
    must(cudaMemset(x, 0, BLOCKS * THREADS * sizeof *x));
    bool right = true;
    for (int a = 1; a < argc; a++) {
        const long long cycles = atoll(argv[a]);
        std::vector<long long> all[2], one(WARPS);
        for (int i = 0; i < 2 * ROUNDS; i++) {
            const int which = (i / 2 + i) % 2; /* ABBA */
            if (which)
                counted<true><<<BLOCKS, THREADS>>>(x, y, cycles, taken);
            else
                counted<false><<<BLOCKS, THREADS>>>(x, y, cycles, taken);
            must(cudaGetLastError());
            must(cudaMemcpy(one.data(), taken, WARPS * sizeof *taken, cudaMemcpyDeviceToHost));
            all[which].insert(all[which].end(), one.begin(), one.end());
        }
        const double full = median(all[0]), less = median(all[1]), ratio = less / full;
        const double wanted = (1000 - KS_TOOL_PERMILLE) / 1000.0;
        const bool holds = std::fabs(ratio - wanted) <= 0.002;
        right &= holds;
        printf("%lld cycles: %.0f and %.0f, ratio %.5f, intended %.3f%s\n", cycles, full, less, ratio, wanted,
               holds ? "" : "  OFF");
    }
    return right ? 0 : 1;
}
