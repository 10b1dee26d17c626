/* C = A B (+ bias) on the tensor cores.

   A block computes a tile of C, 128 x 128 or 64 x 64. Tiles of A and B, 32 deep, come through four buffers in shared
   memory that are filled asynchronously; each warp multiplies 16 x 8 x 16 fragments. A tile lies in shared memory as its
   matrix lies in global memory, and the fragments are transposed on their way into registers where that is needed, so
   all four layouts run the same loop. Where C has too few tiles for the GPU, the depth is split: partial sums go to the
   workspace and a second kernel adds them, always in the same order. */
#include "gemm.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/* BEGIN PTX: the instructions that have no name in CUDA C++; the emulation has its own */

/* Copies 16 bytes to shared memory, of which `bytes` are read and the rest is zero. */
static __device__ __forceinline__ void copy_async(void *shared, const void *global, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                 "l"(global), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
static __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Four 8 x 8 matrices; lane i names row i % 8 of matrix i / 8. */
template <bool TRANS>
static __device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const void *row)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at)
                     : "memory");
}

/* c += a b with a 16 x 16, b 16 x 8. */
static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* END PTX */

namespace {

typedef __nv_bfloat16 bf16;

constexpr int DEPTH = 32;  /* of a tile */
constexpr int STAGES = 4;  /* buffers in shared memory */
constexpr int SKEW = 8;    /* elements between rows in shared memory, so that eight rows lie in different banks */
constexpr int64_t LEAST_SPLIT = 256;
constexpr int MOST_SPLITS = 32;

/* One matrix in global memory as lines of contiguous elements, whichever axis they run along. */
struct Lines {
    const bf16 *data;
    int64_t pitch; /* elements from line to line */
    int64_t lines, length;
};

/* Brings LINES lines of LENGTH elements to shared memory; what lies outside the matrix becomes zero. */
template <int LINES, int LENGTH, int THREADS, bool WIDE>
__device__ void fetch(bf16 *shared, const Lines &from, int64_t line0, int64_t start)
{
    constexpr int CHUNKS = LENGTH / 8;
    static_assert(LINES * CHUNKS % THREADS == 0, "every thread copies as much");
#pragma unroll
    for (int n = 0; n < LINES * CHUNKS / THREADS; n++) {
        const int chunk = n * THREADS + (int)threadIdx.x;
        const int l = chunk / CHUNKS, e = chunk % CHUNKS * 8;
        const int64_t line = line0 + l, at = start + e;
        int64_t valid = line < from.lines ? from.length - at : 0;
        valid = valid < 0 ? 0 : valid > 8 ? 8 : valid;
        bf16 *to = shared + l * (LENGTH + SKEW) + e;
        const bf16 *source = valid > 0 ? from.data + line * from.pitch + at : from.data;
        if (WIDE) {
            copy_async(to, source, (int)valid * 2);
        } else {
            struct alignas(16) {
                bf16 v[8];
            } chunk_of;
#pragma unroll
            for (int i = 0; i < 8; i++)
                chunk_of.v[i] = i < valid ? source[i] : __float2bfloat16(0.0f);
            *(decltype(chunk_of) *)to = chunk_of;
        }
    }
}

/* A_DEEP: the elements of a line of A run along the depth (row-major A). B_DEEP: those of B do (column-major B). */
template <int BM, int BN, int WARPS_M, int WARPS_N, bool A_DEEP, bool B_DEEP, bool WIDE>
__global__ void __launch_bounds__(WARPS_M * WARPS_N * 32)
    gemm_tiles(Lines a, Lines b, int64_t M, int64_t N, int64_t K, int64_t split_depth, const float *bias, bf16 *c,
               float *partial)
{
    constexpr int THREADS = WARPS_M * WARPS_N * 32;
    constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N; /* a warp's part of the tile */
    constexpr int FM = WM / 16, FN = WN / 8;            /* fragments */
    static_assert(FN % 2 == 0, "fragments of B are loaded in pairs");
    constexpr int A_LINES = A_DEEP ? BM : DEPTH, A_LENGTH = A_DEEP ? DEPTH : BM;
    constexpr int B_LINES = B_DEEP ? BN : DEPTH, B_LENGTH = B_DEEP ? DEPTH : BN;
    constexpr int A_SIZE = A_LINES * (A_LENGTH + SKEW), B_SIZE = B_LINES * (B_LENGTH + SKEW);
    extern __shared__ uint4 storage[];
    bf16 *buffers = (bf16 *)storage;

    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int wm = warp / WARPS_N * WM, wn = warp % WARPS_N * WN;
    const int64_t m0 = (int64_t)blockIdx.x * BM, n0 = (int64_t)blockIdx.y * BN;
    const int64_t k0 = (int64_t)blockIdx.z * split_depth;
    const int64_t k1 = k0 + split_depth < K ? k0 + split_depth : K;
    const int tiles = (int)((k1 - k0 + DEPTH - 1) / DEPTH);
    /* Seen from this block the matrices end where its part of the depth ends. */
    if (A_DEEP)
        a.length = k1;
    else
        a.lines = k1;
    if (B_DEEP)
        b.length = k1;
    else
        b.lines = k1;

    const auto bring = [&](int tile) {
        bf16 *at = buffers + tile % STAGES * (A_SIZE + B_SIZE);
        const int64_t k = k0 + (int64_t)tile * DEPTH;
        fetch<A_LINES, A_LENGTH, THREADS, WIDE>(at, a, A_DEEP ? m0 : k, A_DEEP ? k : m0);
        fetch<B_LINES, B_LENGTH, THREADS, WIDE>(at + A_SIZE, b, B_DEEP ? n0 : k, B_DEEP ? k : n0);
    };

    float acc[FM][FN][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < tiles)
            bring(s);
        copy_commit(); /* one group for each tile, even an empty one: the wait below counts groups */
    }
    for (int tile = 0; tile < tiles; tile++) {
        copy_wait<STAGES - 2>();
        __syncthreads(); /* the tile is here for all, and all are done with the buffer that is filled next */
        if (tile + STAGES - 1 < tiles)
            bring(tile + STAGES - 1);
        copy_commit();

        const bf16 *as = buffers + tile % STAGES * (A_SIZE + B_SIZE), *bs = as + A_SIZE;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            uint32_t fa[FM][4], fb[FN][2];
#pragma unroll
            for (int i = 0; i < FM; i++) {
                const int m = wm + i * 16;
                /* Order of the four matrices: rows 0-7 and 8-15 at depth 0-7, then both at depth 8-15. */
                if (A_DEEP)
                    load_matrices<false>(fa[i], as + (m + lane % 16) * (A_LENGTH + SKEW) + k + lane / 16 * 8);
                else
                    load_matrices<true>(fa[i], as + (k + lane / 16 * 8 + lane % 8) * (A_LENGTH + SKEW) + m +
                                                   lane / 8 % 2 * 8);
            }
#pragma unroll
            for (int j = 0; j < FN; j += 2) {
                const int n = wn + j * 8;
                uint32_t pair[4];
                /* Depth 0-7 and 8-15 of columns 0-7, then both of columns 8-15. */
                if (B_DEEP)
                    load_matrices<false>(pair, bs + (n + lane / 16 * 8 + lane % 8) * (B_LENGTH + SKEW) + k +
                                                   lane / 8 % 2 * 8);
                else
                    load_matrices<true>(pair, bs + (k + lane % 16) * (B_LENGTH + SKEW) + n + lane / 16 * 8);
                fb[j][0] = pair[0];
                fb[j][1] = pair[1];
                fb[j + 1][0] = pair[2];
                fb[j + 1][1] = pair[3];
            }
#pragma unroll
            for (int i = 0; i < FM; i++)
#pragma unroll
                for (int j = 0; j < FN; j++)
                    multiply(acc[i][j], fa[i], fb[j]);
        }
    }

#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int64_t m = m0 + wm + i * 16 + lane / 4 + half * 8, n = n0 + wn + j * 8 + lane % 4 * 2;
                if (m >= M || n >= N)
                    continue;
                float left = acc[i][j][half * 2], right = acc[i][j][half * 2 + 1];
                const bool both = n + 1 < N;
                if (gridDim.z > 1) {
                    float *to = partial + ((int64_t)blockIdx.z * M + m) * N + n;
                    to[0] = left;
                    if (both)
                        to[1] = right;
                    continue;
                }
                if (bias) {
                    left += bias[n];
                    right += both ? bias[n + 1] : 0.0f;
                }
                bf16 *to = c + m * N + n;
                if (both && N % 2 == 0) {
                    *(__nv_bfloat162 *)to = __floats2bfloat162_rn(left, right);
                } else {
                    to[0] = __float2bfloat16(left);
                    if (both)
                        to[1] = __float2bfloat16(right);
                }
            }
}

__global__ void __launch_bounds__(256)
    add_splits(const float *partial, int splits, int64_t count, int64_t N, const float *bias, bf16 *c)
{
    const int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (at >= count)
        return;
    float sum = bias ? bias[at % N] : 0.0f;
    for (int s = 0; s < splits; s++)
        sum += partial[s * count + at];
    c[at] = __float2bfloat16(sum);
}

struct Plan {
    bool large;
    int64_t tiles_m, tiles_n, splits, split_depth;
};

/* From shapes alone, so that the workspace that was asked for is the workspace that is used. */
Plan plan(int64_t M, int64_t N, int64_t K)
{
    Plan p;
    p.large = (M + 127) / 128 * ((N + 127) / 128) >= 100;
    const int64_t tile = p.large ? 128 : 64;
    p.tiles_m = (M + tile - 1) / tile;
    p.tiles_n = (N + tile - 1) / tile;
    const int64_t blocks = p.tiles_m * p.tiles_n;
    int64_t splits = blocks < 132 ? 264 / blocks : 1;
    splits = splits > K / LEAST_SPLIT ? K / LEAST_SPLIT : splits;
    splits = splits > MOST_SPLITS ? MOST_SPLITS : splits < 1 ? 1 : splits;
    const int64_t deep = (K + DEPTH - 1) / DEPTH, each = (deep + splits - 1) / splits;
    p.split_depth = each * DEPTH;
    p.splits = (deep + each - 1) / each; /* none is empty */
    return p;
}

template <int BM, int BN, int WARPS_M, int WARPS_N, bool A_DEEP, bool B_DEEP, bool WIDE>
ks_status launch(const gemm_call *call, const Plan &p)
{
    constexpr int A_SIZE = (A_DEEP ? BM : DEPTH) * ((A_DEEP ? DEPTH : BM) + SKEW);
    constexpr int B_SIZE = (B_DEEP ? BN : DEPTH) * ((B_DEEP ? DEPTH : BN) + SKEW);
    constexpr int SHARED = STAGES * (A_SIZE + B_SIZE) * (int)sizeof(bf16);
    const auto kernel = gemm_tiles<BM, BN, WARPS_M, WARPS_N, A_DEEP, B_DEEP, WIDE>;
    static const cudaError_t granted =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (granted != cudaSuccess)
        return KS_ERROR;

    const int64_t M = call->a.shape[0], K = call->a.shape[1], N = call->b.shape[1];
    const Lines a = {(const bf16 *)call->a.data, call->a.stride[A_DEEP ? 0 : 1], A_DEEP ? M : K, A_DEEP ? K : M};
    const Lines b = {(const bf16 *)call->b.data, call->b.stride[B_DEEP ? 1 : 0], B_DEEP ? N : K, B_DEEP ? K : N};
    const float *bias = (const float *)call->bias.data;
    float *partial = (float *)call->workspace;
    bf16 *c = (bf16 *)call->c.data;
    const cudaStream_t stream = (cudaStream_t)call->stream;
    const dim3 grid((unsigned)p.tiles_m, (unsigned)p.tiles_n, (unsigned)p.splits);
    kernel<<<grid, WARPS_M * WARPS_N * 32, SHARED, stream>>>(a, b, M, N, K, p.split_depth, bias, c, partial);
    if (p.splits > 1)
        add_splits<<<(unsigned)((M * N + 255) / 256), 256, 0, stream>>>(partial, (int)p.splits, M * N, N, bias, c);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

template <bool A_DEEP, bool B_DEEP, bool WIDE>
ks_status sized(const gemm_call *call)
{
    const Plan p = plan(call->a.shape[0], call->b.shape[1], call->a.shape[1]);
    return p.large ? launch<128, 128, 2, 4, A_DEEP, B_DEEP, WIDE>(call, p)
                   : launch<64, 64, 2, 2, A_DEEP, B_DEEP, WIDE>(call, p);
}

/* Whether every line of contiguous elements begins at a multiple of 16 bytes; `lines` is the axis that counts them. */
bool starts_aligned(const ks_tensor &t, int lines)
{
    return (uintptr_t)t.data % 16 == 0 && (t.stride[lines] % 8 == 0 || t.shape[lines] == 1);
}

template <bool A_DEEP, bool B_DEEP>
ks_status aligned(const gemm_call *call)
{
    const bool a_wide = starts_aligned(call->a, A_DEEP ? 0 : 1), b_wide = starts_aligned(call->b, B_DEEP ? 1 : 0);
    return a_wide && b_wide ? sized<A_DEEP, B_DEEP, true>(call) : sized<A_DEEP, B_DEEP, false>(call);
}

} // namespace

ks_status gemm(const gemm_call *call)
{
    /* A matrix of one column or row may be read either way; along the depth it is one line. */
    const bool a_deep = call->a.stride[1] == 1;
    const bool b_deep = call->b.stride[0] == 1 && (call->b.stride[1] != 1 || call->b.shape[1] == 1);
    if ((!a_deep && call->a.stride[0] != 1) || (!b_deep && call->b.stride[1] != 1))
        return KS_UNSUPPORTED;
    if (a_deep)
        return b_deep ? aligned<true, true>(call) : aligned<true, false>(call);
    return b_deep ? aligned<false, true>(call) : aligned<false, false>(call);
}

size_t gemm_workspace(const gemm_call *call)
{
    const int64_t M = call->a.shape[0], N = call->b.shape[1];
    const Plan p = plan(M, N, call->a.shape[1]);
    return p.splits > 1 ? (size_t)(p.splits * M * N) * sizeof(float) : 0;
}
