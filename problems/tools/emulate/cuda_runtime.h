/* Runs CUDA kernels on the CPU, thread by thread, to check their arithmetic and their indices where there is no GPU.

   Every CUDA thread is a fiber; blocks run one after another. A fiber runs until it meets a barrier, so the order of
   threads between barriers is fixed and alternates between ascending and descending: a missing barrier usually shows
   as a wrong answer, but need not. Nothing here says anything about time, caches or asynchronous copies that were not
   waited for. `nvcc.cpp` turns launches and shared memory into calls of this. With KS_STAND_IN, launches and the runtime's
   functions are the stand-in driver's; else a launch runs where it stands. */
#ifndef KS_EMULATE_CUDA_RUNTIME_H
#define KS_EMULATE_CUDA_RUNTIME_H

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <tuple>

#include "machine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __shared__ static

using std::isfinite;
using std::max;
using std::min;

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#include "runtime_api.h"

namespace emu {
/* A launch with its arguments. */
template <class L, class... A>
struct Bound {
    L launch;
    std::tuple<A...> arguments;
    template <class K>
    void operator()(K kernel)
    {
        launch.run([kernel, all = arguments] { std::apply(kernel, all); });
    }
};
} // namespace emu

#ifdef KS_STAND_IN
namespace emu {
/* Set by the start-up code that `nvcc.cpp` adds, which gets it from the runtime library. */
extern Machine *the_machine;
inline Machine &machine() { return *the_machine; }

struct Launch {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    Launch(dim3 g, dim3 b, size_t s = 0, cudaStream_t at = nullptr) : grid(g), block(b), shared(s), stream(at) {}
    template <class... A>
    Bound<Launch, A...> with(A... arguments) { return {*this, std::tuple<A...>(arguments...)}; }
    template <class K>
    void run(K kernel)
    {
        void (*run)(void *) = [](void *k) { (*(K *)k)(); };
        void (*drop)(void *) = [](void *k) { delete (K *)k; };
        void *parts[2] = {new K(kernel), (void *)drop};
        cudaLaunchKernel((const void *)run, grid, block, parts, shared, stream);
    }
};
} // namespace emu
#else
#include "scheduler.h"
namespace emu {
[[noreturn]] inline void die(const char *why)
{
    fprintf(stderr, "emulation: %s\n", why);
    abort();
}
inline Scheduler scheduler(die);
inline Machine &machine() { return scheduler.machine; }

struct Launch {
    dim3 grid, block;
    size_t shared;
    Launch(dim3 g, dim3 b, size_t s = 0, cudaStream_t = nullptr) : grid(g), block(b), shared(s)
    {
        if (!g.x || !g.y || !g.z || g.y > 65535 || g.z > 65535 || b.x * b.y * b.z > 1024 || !(b.x * b.y * b.z))
            die("a launch that a GPU refuses");
        if (shared > SHARED_MOST)
            die("more shared memory than a block may have");
    }
    template <class... A>
    Bound<Launch, A...> with(A... arguments) { return {*this, std::tuple<A...>(arguments...)}; }
    void run(const std::function<void()> &kernel) { scheduler.run(grid, block, shared, kernel); }
};
} // namespace emu
#endif

namespace emu {
inline void *dynamic_shared() { return machine().dynamic; }
inline unsigned lane() { return machine().thread->flat % 32; }
inline Warp &warp() { return machine().warps[machine().thread->flat / 32]; }
inline void pause(Wait w) { machine().pause(w); }

template <class T>
inline T from_lane(T mine, unsigned lane_of)
{
    static_assert(sizeof(T) <= 8, "one word");
    memcpy(warp().slot[lane()], &mine, sizeof mine);
    pause(Wait::Warp);
    T theirs;
    memcpy(&theirs, warp().slot[lane_of], sizeof theirs);
    pause(Wait::Warp);
    return theirs;
}
} // namespace emu

#define threadIdx (emu::machine().thread->index)
#define blockIdx (emu::machine().block_index)
#define blockDim (emu::machine().block)
#define gridDim (emu::machine().grid)
#define warpSize 32

static inline void __syncthreads() { emu::pause(emu::Wait::Block); }
static inline void __syncwarp(unsigned = ~0u) { emu::pause(emu::Wait::Warp); }
static inline void __threadfence() {}
static inline void __trap() { emu::machine().die("a trap"); }
template <class T>
static inline T __shfl_xor_sync(unsigned, T v, int mask, int width = 32)
{
    const unsigned l = emu::lane(), to = l ^ (unsigned)mask;
    return emu::from_lane(v, to / (unsigned)width > l / (unsigned)width ? l : to);
}
template <class T>
static inline T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32)
{
    const unsigned l = emu::lane();
    return emu::from_lane(v, l % (unsigned)width + by < (unsigned)width ? l + by : l);
}
template <class T>
static inline T __shfl_sync(unsigned, T v, int from, int width = 32)
{
    return emu::from_lane(v, emu::lane() / (unsigned)width * (unsigned)width + (unsigned)from % (unsigned)width);
}
static inline int __all_sync(unsigned, int holds)
{
    memcpy(emu::warp().slot[emu::lane()], &holds, sizeof holds);
    emu::pause(emu::Wait::Warp);
    int all = 1, one;
    for (unsigned l = 0; l < 32; l++)
        all &= (memcpy(&one, emu::warp().slot[l], sizeof one), one != 0);
    emu::pause(emu::Wait::Warp);
    return all;
}
template <class T>
static inline T atomicAdd(T *at, T v) { const T old = *at; *at += v; return old; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __double2float_rn(double v) { return (float)v; }
static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline float rsqrtf(float v) { return (float)(1.0 / std::sqrt((double)v)); }
/* A clock of 1 GHz. */
static inline long long clock64()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#endif
