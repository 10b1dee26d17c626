/* Runs CUDA kernels on the CPU, thread by thread, to check their arithmetic and their indices where there is no GPU.

   Every CUDA thread is a fiber; blocks run one after another. A fiber runs until it meets a barrier, so the order of
   threads between barriers is fixed and alternates between ascending and descending: a missing barrier usually shows
   as a wrong answer, but need not. Nothing here says anything about time, caches or asynchronous copies that were not
   waited for. `emulate.py` rewrites launches and shared memory and puts this folder on the include path. */
#ifndef KS_EMULATE_CUDA_RUNTIME_H
#define KS_EMULATE_CUDA_RUNTIME_H

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

typedef void *cudaStream_t;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class K>
static inline cudaError_t cudaFuncSetAttribute(K, int, int) { return cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t) { memset(p, v, n); return cudaSuccess; }

namespace emu {
[[noreturn]] inline void die(const char *why)
{
    fprintf(stderr, "emulation: %s\n", why);
    abort();
}

enum class Wait { None, Warp, Block, Done };
constexpr size_t STACK = 64 << 10;
struct Fiber {
    jmp_buf here;
    dim3 thread;
    unsigned flat;
    Wait wait;
    bool started;
    std::unique_ptr<char[]> stack;
};
struct Warp { uint64_t slot[32][8]; };

inline jmp_buf scheduler;
inline std::vector<Fiber> fibers; /* kept from launch to launch */
inline std::vector<Warp> warps;
inline std::vector<uint64_t> dynamic; /* one block's dynamic shared memory */
inline Fiber *current;
inline dim3 grid, block, index;
inline std::function<void()> body;

/* Back to the scheduler. Jumps instead of swapcontext: no system call for each of some million switches. */
inline void pause(Wait w)
{
    Fiber *me = current;
    me->wait = w;
    if (!_setjmp(me->here))
        _longjmp(scheduler, 1);
}
inline void enter()
{
    for (;;) { /* once for each block that has this thread */
        body();
        pause(Wait::Done);
    }
}
inline void resume(Fiber &f)
{
    current = &f;
    if (_setjmp(scheduler))
        return;
    if (f.started)
        _longjmp(f.here, 1);
    f.started = true;
    f.stack.reset(new char[STACK]);
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = f.stack.get();
    start.uc_stack.ss_size = STACK;
    start.uc_link = nullptr;
    makecontext(&start, enter, 0);
    setcontext(&start);
}
inline void release()
{
    const unsigned n = block.x * block.y * block.z;
    bool all_block = true, moved = false;
    for (unsigned w = 0; w * 32 < n; w++) {
        bool all_warp = true, any = false; /* a thread that has left does not take part in an exchange of all lanes */
        for (unsigned t = w * 32; t < n && t < w * 32 + 32; t++) {
            const Wait s = fibers[t].wait;
            any |= s == Wait::Warp;
            all_warp &= s == Wait::Warp;
            all_block &= s == Wait::Block || s == Wait::Done;
        }
        if (any && all_warp) {
            moved = true;
            for (unsigned t = w * 32; t < n && t < w * 32 + 32; t++)
                fibers[t].wait = Wait::None;
        }
    }
    if (moved)
        return;
    if (!all_block)
        die("threads wait for each other: a barrier or an exchange that not every thread reaches");
    for (auto &f : fibers)
        if (f.wait == Wait::Block)
            f.wait = Wait::None;
}
inline void run_block(unsigned pass)
{
    const unsigned n = block.x * block.y * block.z;
    if (fibers.size() < n)
        fibers.resize(1024);
    warps.resize((n + 31) / 32);
    std::fill(dynamic.begin(), dynamic.end(), 0x7ff7dead7fc1deadull); /* nothing may count on zeros */
    for (unsigned t = 0; t < n; t++) {
        Fiber &f = fibers[t];
        f.flat = t;
        f.thread = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
        f.wait = Wait::None;
    }
    for (;; pass++) {
        bool ran = false, alive = false;
        for (unsigned i = 0; i < n; i++) {
            Fiber &f = fibers[pass % 2 ? n - 1 - i : i];
            if (f.wait == Wait::None) {
                ran = true;
                resume(f);
            }
            alive |= f.wait != Wait::Done;
        }
        if (!alive)
            return;
        if (!ran)
            release();
    }
}
struct Launch {
    Launch(dim3 g, dim3 b, size_t shared = 0, cudaStream_t = nullptr)
    {
        if (!g.x || !g.y || !g.z || g.y > 65535 || g.z > 65535 || b.x * b.y * b.z > 1024 || !(b.x * b.y * b.z))
            die("a launch that a GPU refuses");
        if (shared > 227 << 10)
            die("more shared memory than a block may have");
        grid = g;
        block = b;
        dynamic.assign((shared + 15) / 8, 0);
    }
    void operator()(std::function<void()> kernel)
    {
        body = std::move(kernel);
        unsigned pass = 0;
        for (index.z = 0; index.z < grid.z; index.z++)
            for (index.y = 0; index.y < grid.y; index.y++)
                for (index.x = 0; index.x < grid.x; index.x++)
                    run_block(pass++);
    }
};
inline void *dynamic_shared()
{
    return (void *)(((uintptr_t)dynamic.data() + 15) & ~(uintptr_t)15);
}
inline unsigned lane() { return current->flat % 32; }
inline Warp &warp() { return warps[current->flat / 32]; }

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

#define threadIdx (emu::current->thread)
#define blockIdx (emu::index)
#define blockDim (emu::block)
#define gridDim (emu::grid)
#define warpSize 32

static inline void __syncthreads() { emu::pause(emu::Wait::Block); }
static inline void __syncwarp(unsigned = ~0u) { emu::pause(emu::Wait::Warp); }
static inline void __threadfence() {}
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
template <class T>
static inline T atomicAdd(T *at, T v) { const T old = *at; *at += v; return old; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __double2float_rn(double v) { return (float)v; }
static inline float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static inline unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static inline float rsqrtf(float v) { return (float)(1.0 / std::sqrt((double)v)); }

#endif
