/* Attention, plainly: a block takes a tile of query rows, walks over the keys in tiles, and keeps each row's largest logit, sum
   of exponentials and weighted sum of values up to date. Everything is computed in f32 on the ordinary pipes.

   Runs every dtype, layout and mask of the problem, D and Dv up to 256. No workspace. */
#include "attention_forward.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256;
constexpr int KEYS = 64;                   /* keys of a tile */
constexpr int LANES = 16;                  /* threads that share a row */
constexpr int WEIGHTS_PITCH = KEYS + 4;

__device__ float value(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float value(__half x) { return __half2float(x); }
__device__ float value(__nv_fp8_e4m3 x) { return (float)x; }
__device__ void put(__nv_bfloat16 *to, float x) { *to = __float2bfloat16(x); }
__device__ void put(__half *to, float x) { *to = __float2half(x); }

/* What a block needs to know about its sequence and key head. */
struct Rows {
    int64_t q, out, lse;       /* elements before the first query row's, in each tensor, of head 0 */
    int64_t q_count, q_stored; /* query rows that are used, and all of them */
    int64_t k, v;              /* elements before key position 0 of this head, in a page or a sequence */
    int64_t k_first, k_count;  /* first used key position, and how many are used */
    const int *pages;          /* page of each page_size key positions; null where keys are not paged */
};

__device__ Rows rows_of(const attention_forward_call &call, int b, int hk)
{
    Rows r = {};
    const int head_axis = call.k.rank - 2;
    r.k = hk * call.k.stride[head_axis];
    r.v = hk * call.v.stride[head_axis];
    if (call.cu_seqlens_q.data) {
        const int *q_starts = (const int *)call.cu_seqlens_q.data, *k_starts = (const int *)call.cu_seqlens_k.data;
        const int64_t first = q_starts[b];
        r.q = first * call.q.stride[0];
        r.out = first * call.out.stride[0];
        r.lse = first;
        r.q_count = r.q_stored = q_starts[b + 1] - first;
        r.k_first = k_starts[b];
        r.k_count = k_starts[b + 1] - k_starts[b];
        return r;
    }
    r.q = b * call.q.stride[0];
    r.out = b * call.out.stride[0];
    r.lse = b * call.lse.stride[0];
    r.q_stored = call.q.shape[1];
    r.q_count = call.seqused_q.data ? ((const int *)call.seqused_q.data)[b] : r.q_stored;
    r.k_first = call.leftpad_k.data ? ((const int *)call.leftpad_k.data)[b] : 0;
    const int64_t end = call.seqused_k.data ? ((const int *)call.seqused_k.data)[b] : call.k.shape[1];
    r.k_count = max((int64_t)0, end - r.k_first);
    if (call.page_table.data) {
        r.pages = (const int *)call.page_table.data + b * call.page_table.stride[0];
    } else {
        r.k += b * call.k.stride[0];
        r.v += b * call.v.stride[0];
    }
    return r;
}

/* Elements before used key row `j` in k or v, whose head begins `head` elements into a page or sequence. */
__device__ int64_t key_row(const ks_tensor &t, const Rows &rows, int64_t head, int64_t j)
{
    const int row_axis = t.rank - 3, position = (int)(rows.k_first + j);
    if (!rows.pages)
        return head + position * t.stride[row_axis];
    const int page_size = (int)t.shape[1];
    return head + rows.pages[position / page_size] * t.stride[0] + position % page_size * t.stride[1];
}

/* Four neighbouring elements, read at once. */
template <class T>
struct alignas(4 * sizeof(T)) Four {
    T x[4];
};

/* Fills `count` rows of shared memory, a warp a row; rows that `at` does not know, and the end of a row, become zeros. */
template <class T, class At>
__device__ void fill(float *to, int pitch, int count, const T *from, int width, At at)
{
    for (int row = threadIdx.x / 32; row < count; row += THREADS / 32) {
        const int64_t first = at(row);
        for (int d = threadIdx.x % 32 * 4; d < pitch; d += 128) {
            const T *here = from + first + d;
            float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (first >= 0 && d + 4 <= width && (uintptr_t)here % sizeof(Four<T>) == 0) {
                const Four<T> read = *(const Four<T> *)here;
                four = make_float4(value(read.x[0]), value(read.x[1]), value(read.x[2]), value(read.x[3]));
            } else if (first >= 0 && d < width) {
                four.x = value(here[0]);
                four.y = d + 1 < width ? value(here[1]) : 0.0f;
                four.z = d + 2 < width ? value(here[2]) : 0.0f;
                four.w = d + 3 < width ? value(here[3]) : 0.0f;
            }
            *(float4 *)(to + row * pitch + d) = four;
        }
    }
}

__device__ float largest_of_row(float x)
{
    for (int apart = 1; apart < LANES; apart *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}

__device__ float sum_of_row(float x)
{
    for (int apart = 1; apart < LANES; apart *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

/* ROWS query rows of one sequence and key head a block; the heads that share the key head lie side by side, so that row r is
   position r / group of head r % group. CHUNKS: pieces of 64 columns that hold a value row. */
template <class T, class O, int ROWS, int CHUNKS>
__global__ void __launch_bounds__(THREADS, CHUNKS <= 2 ? 2 : 1)
    attend(const __grid_constant__ attention_forward_call call, int pitch, float scale)
{
    constexpr int MINE = ROWS / (THREADS / LANES); /* rows of a thread */
    extern __shared__ float shared[];
    float *q = shared, *kv = q + ROWS * pitch, *weights = kv + KEYS * pitch;

    const int b = blockIdx.z, hk = blockIdx.y, lane = threadIdx.x % LANES, mine = threadIdx.x / LANES * MINE;
    const int group = (int)(call.q.shape[call.q.rank - 2] / call.k.shape[call.k.rank - 2]);
    const int dim = (int)call.q.shape[call.q.rank - 1], value_dim = (int)call.out.shape[call.out.rank - 1];
    const int q_axis = call.q.rank - 3;
    const Rows rows = rows_of(call, b, hk);
    const int first = blockIdx.x * ROWS, count = (int)rows.q_stored * group;
    if (first >= count)
        return;

    float v_scale = 1.0f;
    if (call.q_descale.data) {
        const int at = b * (int)call.q_descale.stride[0] + hk;
        scale *= ((const float *)call.q_descale.data)[at] * ((const float *)call.k_descale.data)[at];
        v_scale = ((const float *)call.v_descale.data)[at];
    }

    /* The keys that each row sees, and all of them together. */
    const int k_count = (int)rows.k_count, q_count = (int)rows.q_count;
    const int left = (int)call.window_left, right = call.causal ? 0 : (int)call.window_right;
    const auto low_of = [&](int i) { return left < 0 ? 0 : max(0, i + k_count - q_count - left); };
    const auto high_of = [&](int i) { return i >= q_count ? 0 : right < 0 ? k_count : min(k_count, i + k_count - q_count + right + 1); };
    int low[MINE], high[MINE];
    for (int r = 0; r < MINE; r++) {
        low[r] = low_of((first + mine + r) / group);
        high[r] = first + mine + r < count ? high_of((first + mine + r) / group) : 0;
    }
    const int from = low_of(first / group), to = high_of(min(min(first + ROWS, count) - 1, q_count * group - 1) / group);

    fill(q, pitch, ROWS, (const T *)call.q.data, dim, [&](int r) {
        const int i = (first + r) / group, h = hk * group + (first + r) % group;
        return first + r < count ? rows.q + i * call.q.stride[q_axis] + h * call.q.stride[q_axis + 1] : (int64_t)-1;
    });

    float top[MINE], sum[MINE], out[MINE][4 * CHUNKS] = {};
    for (int r = 0; r < MINE; r++) {
        top[r] = -INFINITY;
        sum[r] = 0.0f;
    }
    for (int k0 = first / group < q_count ? from / KEYS * KEYS : to; k0 < to; k0 += KEYS) {
        __syncthreads();
        fill(kv, pitch, KEYS, (const T *)call.k.data, dim,
             [&](int j) { return k0 + j < k_count ? key_row(call.k, rows, rows.k, k0 + j) : (int64_t)-1; });
        __syncthreads();

        /* Logits of this thread's rows and the keys lane, lane + LANES, … */
        float s[MINE][KEYS / LANES] = {};
        for (int d = 0; d < dim; d += 4) {
            float4 a[MINE];
            for (int r = 0; r < MINE; r++)
                a[r] = *(const float4 *)(q + (mine + r) * pitch + d);
#pragma unroll
            for (int c = 0; c < KEYS / LANES; c++) {
                const float4 k = *(const float4 *)(kv + (lane + LANES * c) * pitch + d);
                for (int r = 0; r < MINE; r++)
                    s[r][c] += a[r].x * k.x + a[r].y * k.y + a[r].z * k.z + a[r].w * k.w;
            }
        }

        for (int r = 0; r < MINE; r++) {
            float highest = -INFINITY;
            for (int c = 0; c < KEYS / LANES; c++) {
                const int j = k0 + lane + LANES * c;
                s[r][c] *= scale;
                if (call.softcap > 0.0)
                    s[r][c] = (float)call.softcap * tanhf(s[r][c] / (float)call.softcap);
                if (j < low[r] || j >= high[r])
                    s[r][c] = -INFINITY;
                highest = fmaxf(highest, s[r][c]);
            }
            highest = fmaxf(top[r], largest_of_row(highest));
            /* No key seen yet: nothing to rescale, and every weight below is exp(-inf). */
            const float origin = highest == -INFINITY ? 0.0f : highest;
            const float kept = expf(top[r] - origin);
            float added = 0.0f;
            for (int c = 0; c < KEYS / LANES; c++) {
                const float weight = expf(s[r][c] - origin);
                added += weight;
                weights[(mine + r) * WEIGHTS_PITCH + lane + LANES * c] = weight;
            }
            sum[r] = sum[r] * kept + sum_of_row(added);
            top[r] = highest;
            for (int c = 0; c < 4 * CHUNKS; c++)
                out[r][c] *= kept;
        }
        __syncthreads();
        fill(kv, pitch, KEYS, (const T *)call.v.data, value_dim,
             [&](int j) { return k0 + j < k_count ? key_row(call.v, rows, rows.v, k0 + j) : (int64_t)-1; });
        __syncthreads();

        for (int j = 0; j < KEYS; j += 4) {
            float4 w[MINE];
            for (int r = 0; r < MINE; r++)
                w[r] = *(const float4 *)(weights + (mine + r) * WEIGHTS_PITCH + j);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const float *column = kv + j * pitch + min(4 * lane + 64 * c, pitch - 4);
#pragma unroll
                for (int step = 0; step < 4; step++) {
                    const float4 v = *(const float4 *)(column + step * pitch);
                    for (int r = 0; r < MINE; r++) {
                        const float weight = step == 0 ? w[r].x : step == 1 ? w[r].y : step == 2 ? w[r].z : w[r].w;
                        out[r][4 * c] += weight * v.x;
                        out[r][4 * c + 1] += weight * v.y;
                        out[r][4 * c + 2] += weight * v.z;
                        out[r][4 * c + 3] += weight * v.w;
                    }
                }
            }
        }
    }

    for (int r = 0; r < MINE; r++) {
        if (first + mine + r >= count)
            continue;
        const int i = (first + mine + r) / group, h = hk * group + (first + mine + r) % group;
        if (call.sink.data && i < q_count) {
            /* A share of the sum without a value row; it may be far above every logit. */
            const float sink = value(((const __nv_bfloat16 *)call.sink.data)[h]), highest = fmaxf(top[r], sink);
            const float kept = expf(top[r] - highest);
            sum[r] = sum[r] * kept + expf(sink - highest);
            top[r] = highest;
            for (int c = 0; c < 4 * CHUNKS; c++)
                out[r][c] *= kept;
        }
        const float share = sum[r] > 0.0f ? v_scale / sum[r] : 0.0f;
        O *row = (O *)call.out.data + rows.out + i * call.out.stride[q_axis] + h * call.out.stride[q_axis + 1];
        for (int c = 0; c < 4 * CHUNKS; c++) {
            const int d = 4 * lane + 64 * (c / 4) + c % 4;
            if (d < value_dim)
                put(row + d, out[r][c] * share);
        }
        if (lane == 0)
            ((float *)call.lse.data)[rows.lse + h * call.lse.stride[call.lse.rank - 2] + i] =
                sum[r] > 0.0f ? top[r] + logf(sum[r]) : -INFINITY;
    }
}

template <class T, class O, int ROWS, int CHUNKS>
static ks_status launch(const attention_forward_call &call)
{
    const int64_t heads = call.q.shape[call.q.rank - 2], key_heads = call.k.shape[call.k.rank - 2];
    const int64_t dim = call.q.shape[call.q.rank - 1], value_dim = call.out.shape[call.out.rank - 1];
    const int64_t batches = call.cu_seqlens_q.data ? call.cu_seqlens_q.shape[0] - 1 : call.q.shape[0];
    /* Four more than a row has, so that 16-byte accesses to eight rows fall into different banks. */
    const int pitch = (int)((max(dim, value_dim) + 3) / 4 * 4 + 4);
    const size_t bytes = sizeof(float) * ((ROWS + KEYS) * (size_t)pitch + ROWS * WEIGHTS_PITCH);
    const dim3 grid((unsigned)((call.max_seqlen_q * (heads / key_heads) + ROWS - 1) / ROWS), (unsigned)key_heads,
                    (unsigned)batches);
    if (grid.x == 0 || batches == 0)
        return KS_OK;
    cudaFuncSetAttribute(attend<T, O, ROWS, CHUNKS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    attend<T, O, ROWS, CHUNKS>
        <<<grid, THREADS, bytes, (cudaStream_t)call.stream>>>(call, pitch, (float)call.softmax_scale);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

template <class T, class O, int CHUNKS>
static ks_status choose_rows(const attention_forward_call &call)
{
    /* With few query rows, small tiles: most rows of a large one would be empty. */
    const int64_t group = call.q.shape[call.q.rank - 2] / call.k.shape[call.k.rank - 2];
    return call.max_seqlen_q * group <= 16 ? launch<T, O, 16, CHUNKS>(call) : launch<T, O, 64, CHUNKS>(call);
}

template <class T, class O>
static ks_status choose_chunks(const attention_forward_call &call)
{
    switch ((call.out.shape[call.out.rank - 1] + 63) / 64) {
    case 1: return choose_rows<T, O, 1>(call);
    case 2: return choose_rows<T, O, 2>(call);
    case 3: return choose_rows<T, O, 3>(call);
    case 4: return choose_rows<T, O, 4>(call);
    default: return KS_UNSUPPORTED;
    }
}

ks_status attention_forward(const attention_forward_call *call)
{
    if (call->q.shape[call->q.rank - 1] > 256)
        return KS_UNSUPPORTED;
    switch (call->q.dtype) {
    case KS_BF16: return choose_chunks<__nv_bfloat16, __nv_bfloat16>(*call);
    case KS_F16: return choose_chunks<__half, __half>(*call);
    case KS_F8E4M3: return choose_chunks<__nv_fp8_e4m3, __nv_bfloat16>(*call);
    default: return KS_UNSUPPORTED;
    }
}
