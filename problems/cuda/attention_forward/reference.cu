/* Attention in single precision, for every dtype, layout and mask of the problem, straight from the definition: one pass over
   the keys for each row's largest logit and sum of exponentials, a second for the weighted sum of the values. No matrix of scores
   is ever stored.

   attention_forward              every row
   attention_forward_sampled      the rows that are asked for; the others are left alone
   attention_forward_model        attention at the input dtype: keys times scale, logits, weights and what a soft cap makes of
   attention_forward_model_sampled    them are rounded to it as a framework rounds that runs step by step (fp8: to bf16, the
                                  weights to e4m3 after a shift by 2^8)

   What rounds: a logit is a chain of D fused multiply-adds; the values' sums over the 64 keys of a tile are in f32, and tiles are
   added up in f64, as are the exponentials. `problems/tools/confirm_attention.py` derives a bound from that and holds every row to it.

   Rows that see no key: out = 0, lse = -inf, or the sink's logit where there is a sink.
   Padded query rows behind seqused_q: out = 0, lse = -inf. */
#include "attention_forward.h"

#include <cuda_runtime.h>

constexpr int ROWS = 32, KEYS = 64, THREADS = 256;
constexpr int LANES = 16;              /* threads that share a row */
constexpr int MINE = ROWS * LANES / THREADS; /* rows of a thread: consecutive ones */
constexpr int WIDEST = 256;            /* largest D and Dv */

/* ---- Element types: bits and values ---- */

/* The value of a binary format of 16 bits or fewer: its exponent and mantissa stand in the right places of a float once they are
   shifted; what is left is a power of two. Exact for everything finite, subnormal values included. */
__device__ float widened(unsigned magnitude, int shift, float scale, bool negative)
{
    const float value = __uint_as_float(magnitude << shift) * scale;
    return negative ? -value : value;
}

__device__ float load(const ks_tensor &t, int64_t at)
{
    if (t.dtype == KS_F8E4M3) {
        const unsigned bits = ((const uint8_t *)t.data)[at];
        return widened(bits & 0x7f, 20, 0x1p120f, bits & 0x80);
    }
    if (t.dtype == KS_F32)
        return ((const float *)t.data)[at];
    const unsigned bits = ((const uint16_t *)t.data)[at];
    if (t.dtype == KS_F16)
        return widened(bits & 0x7fff, 13, 0x1p112f, bits & 0x8000);
    return __uint_as_float(bits << 16);
}

/* A binary format: smallest normal exponent, mantissa bits, largest finite value. */
struct Format {
    int least_exponent, mantissa;
    float largest;
};
__device__ constexpr Format F16 = {-14, 10, 65504.0f}, BF16 = {-126, 7, 0x1.fep127f}, F8E4M3 = {-6, 3, 448.0f};

/* Rounds to nearest, ties to even, in one step; what is beyond the largest value becomes that value. */
__device__ float round_to(Format f, float x)
{
    if (x == 0.0f || !isfinite(x))
        return x;
    int exponent;
    frexpf(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    const int leading = exponent - 1 < f.least_exponent ? f.least_exponent : exponent - 1;
    const float unit = ldexpf(1.0f, leading - f.mantissa);
    const float rounded = rintf(x / unit) * unit;
    return fabsf(rounded) > f.largest ? copysignf(f.largest, rounded) : rounded;
}

/* Stores one element of `out`: bf16 or f16. */
__device__ void store(const ks_tensor &t, int64_t at, float value)
{
    uint16_t *to = (uint16_t *)t.data + at;
    if (t.dtype == KS_BF16) {
        *to = (uint16_t)(__float_as_uint(round_to(BF16, value)) >> 16);
        return;
    }
    const float rounded = round_to(F16, value);
    const unsigned bits = __float_as_uint(fabsf(rounded) * 0x1p-112f) >> 13;
    *to = (uint16_t)(bits | (rounded < 0.0f ? 0x8000u : 0u));
}

/* ---- Who sees what ---- */

/* One sequence: where its rows begin, in `q` and in its storage of keys, and how many are used. */
struct Sequence {
    int64_t batch, q_first, q_count, q_stored, k_first, k_count;
};

__device__ int64_t entry(const ks_tensor &t, int64_t at) { return ((const int32_t *)t.data)[at * t.stride[0]]; }

__device__ Sequence sequence_of(const attention_forward_call &call, int64_t b)
{
    Sequence s = {b, 0, 0, 0, 0, 0};
    if (call.cu_seqlens_q.data) {
        s.q_first = entry(call.cu_seqlens_q, b);
        s.q_count = s.q_stored = entry(call.cu_seqlens_q, b + 1) - s.q_first;
        s.k_first = entry(call.cu_seqlens_k, b);
        s.k_count = entry(call.cu_seqlens_k, b + 1) - s.k_first;
        return s;
    }
    s.q_stored = call.q.shape[1];
    s.q_count = call.seqused_q.data ? entry(call.seqused_q, b) : s.q_stored;
    s.k_first = call.leftpad_k.data ? entry(call.leftpad_k, b) : 0;
    const int64_t end = call.seqused_k.data ? entry(call.seqused_k, b) : call.k.shape[1];
    s.k_count = end > s.k_first ? end - s.k_first : 0;
    return s;
}

/* First element of query row `i` of head `h`; `t` is q or out. */
__device__ int64_t query_at(const ks_tensor &t, const Sequence &s, int64_t i, int64_t h)
{
    if (t.rank == 3)
        return (s.q_first + i) * t.stride[0] + h * t.stride[1];
    return s.batch * t.stride[0] + i * t.stride[1] + h * t.stride[2];
}

/* First element of key row `j`, counted from the left pad; `t` is k or v. */
__device__ int64_t key_at(const attention_forward_call &call, const ks_tensor &t, const Sequence &s, int64_t j, int64_t h)
{
    const int64_t position = s.k_first + j;
    if (t.rank == 3)
        return position * t.stride[0] + h * t.stride[1];
    if (!call.page_table.data)
        return s.batch * t.stride[0] + position * t.stride[1] + h * t.stride[2];
    const int64_t size = t.shape[1];
    const int64_t at = s.batch * call.page_table.stride[0] + position / size * call.page_table.stride[1];
    const int64_t page = ((const int32_t *)call.page_table.data)[at];
    return page * t.stride[0] + position % size * t.stride[1] + h * t.stride[2];
}

/* The keys [low, high) that query row `i` sees: it stands at key position i + k_count - q_count. */
struct Keys {
    int64_t low, high;
};

__device__ Keys keys_of(const attention_forward_call &call, const Sequence &s, int64_t i)
{
    const int64_t here = i + s.k_count - s.q_count, right = call.causal ? 0 : call.window_right;
    Keys k = {0, s.k_count};
    if (call.window_left >= 0 && here - call.window_left > 0)
        k.low = here - call.window_left;
    if (right >= 0 && here + right + 1 < s.k_count)
        k.high = here + right + 1;
    return k;
}

/* ---- One tile of rows ---- */

/* What a precision model rounds intermediates to; nothing in the reference. */
enum Rounding { EXACT, TO_F16, TO_BF16 };

__device__ float rounded(Rounding to, float x)
{
    return to == EXACT ? x : round_to(to == TO_F16 ? F16 : BF16, x);
}

__device__ float descale(const ks_tensor &t, int64_t b, int64_t h)
{
    return t.data ? load(t, b * t.stride[0] + h * t.stride[1]) : 1.0f;
}

/* `rows` rows of `width` elements into shared memory, `pitch` apart: what `make` makes of each, and zeros where `at` says that
   there is no row, and behind its end up to a multiple of four. A warp for a row, four elements a thread. */
template <class At, class Make>
__device__ void fetch(float *to, int pitch, int rows, int width, const ks_tensor &t, At at, Make make)
{
    for (int row = threadIdx.x / 32; row < rows; row += THREADS / 32) {
        const int64_t first = at(row);
        const auto element = [&](int d) { return first < 0 || d >= width ? 0.0f : make(load(t, first + d)); };
        for (int d = threadIdx.x % 32 * 4; d < width; d += 128)
            *(float4 *)(to + row * pitch + d) = make_float4(element(d), element(d + 1), element(d + 2), element(d + 3));
    }
}

/* Scores of a thread's rows against the keys lane, lane + LANES, …: a chain of fused multiply-adds along D. */
__device__ void scores(float s[MINE][KEYS / LANES], const float *q, const float *k, int pitch, int width, int row, int lane)
{
#pragma unroll
    for (int r = 0; r < MINE; r++)
#pragma unroll
        for (int c = 0; c < KEYS / LANES; c++)
            s[r][c] = 0.0f;
    for (int d = 0; d < width; d += 4) {
        float4 a[MINE];
#pragma unroll
        for (int r = 0; r < MINE; r++)
            a[r] = *(const float4 *)(q + (row + r) * pitch + d);
#pragma unroll
        for (int c = 0; c < KEYS / LANES; c++) {
            const float4 b = *(const float4 *)(k + (lane + LANES * c) * pitch + d);
#pragma unroll
            for (int r = 0; r < MINE; r++) {
                s[r][c] = fmaf(a[r].x, b.x, s[r][c]);
                s[r][c] = fmaf(a[r].y, b.y, s[r][c]);
                s[r][c] = fmaf(a[r].z, b.z, s[r][c]);
                s[r][c] = fmaf(a[r].w, b.w, s[r][c]);
            }
        }
    }
}

__device__ float logit_of(float dot, float scale, float softcap, Rounding to)
{
    const float logit = rounded(to, dot) * scale;
    if (softcap <= 0.0f)
        return logit;
    return rounded(to, softcap * rounded(to, tanhf(rounded(to, logit / softcap))));
}

/* Floats between two rows in shared memory: rows of four banks apart, so that 16-byte accesses of eight rows do not collide. */
__host__ __device__ int pitch_of(int width, int values) { return ((width > values ? width : values) + 3) / 4 * 4 + 4; }

/* Bytes of shared memory of a block: queries, keys or values, weights. */
static size_t shared_bytes(int pitch) { return sizeof(float) * (size_t)((ROWS + KEYS) * pitch + ROWS * (KEYS + 1)); }

/* A block answers ROWS rows of one sequence and key head. The query heads that share the key head lie side by side: row r is
   position r / group, head r % group. CHUNKS: pieces of 64 columns that hold a value row. */
template <int CHUNKS>
__global__ void __launch_bounds__(THREADS, 2)
    answer_rows(const __grid_constant__ attention_forward_call call, ks_sample sample, Rounding to)
{
    extern __shared__ float shared[];
    const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES * MINE;
    const int64_t unit = blockIdx.x + (int64_t)gridDim.x * (blockIdx.y + (int64_t)gridDim.y * blockIdx.z);
    if (!ks_wanted(&sample, (uint64_t)unit))
        return;
    const int64_t hk = blockIdx.y, heads = call.q.shape[call.q.rank - 2];
    const int64_t group = heads / call.k.shape[call.k.rank - 2];
    const int width = (int)call.q.shape[call.q.rank - 1], values = (int)call.out.shape[call.out.rank - 1];
    const Sequence s = sequence_of(call, blockIdx.z);
    const int64_t first = (int64_t)blockIdx.x * ROWS, count = s.q_stored * group;
    if (first >= count)
        return;

    const int pitch = pitch_of(width, values);
    float *q = shared, *kv = q + ROWS * pitch, *weights = kv + KEYS * pitch;
    const bool fp8 = call.q.dtype == KS_F8E4M3;
    /* The queries' descale, too, goes by the key head. */
    const float q_descale = descale(call.q_descale, s.batch, hk), k_descale = descale(call.k_descale, s.batch, hk);
    const float v_descale = descale(call.v_descale, s.batch, hk), softcap = (float)call.softcap;
    const float softmax_scale = (float)call.softmax_scale;
    const float scale = to == EXACT ? (float)(call.softmax_scale * (double)q_descale * (double)k_descale) : 1.0f;

    /* The thread's rows: the keys that they see, largest logit and sum of exponentials. */
    int64_t position[MINE], h[MINE];
    Keys seen[MINE];
    float top[MINE];
    double sum[MINE];
#pragma unroll
    for (int r = 0; r < MINE; r++) {
        const int64_t at = first + row + r;
        position[r] = at / group;
        h[r] = hk * group + at % group;
        seen[r] = at < count && position[r] < s.q_count ? keys_of(call, s, position[r]) : Keys{0, 0};
        top[r] = -INFINITY;
        sum[r] = 0.0;
    }
    /* Keys that some row of the block sees: those of a later row begin and end no earlier. */
    const int64_t first_position = first / group, last = min(first + ROWS, count) - 1;
    const int64_t last_position = min(last / group, s.q_count - 1);
    const bool any = first_position < s.q_count;
    const int64_t low = any ? keys_of(call, s, first_position).low / KEYS * KEYS : 0;
    const int64_t high = any ? keys_of(call, s, last_position).high : 0;

    const auto query_row = [&](int r) {
        const int64_t at = first + r;
        return at < count ? query_at(call.q, s, at / group, hk * group + at % group) : (int64_t)-1;
    };
    fetch(q, pitch, ROWS, width, call.q, query_row,
          [&](float x) { return to == EXACT ? x : rounded(to, x * q_descale); });
    float dots[MINE][KEYS / LANES];
    const auto score = [&](int64_t from) {
        const auto key_row = [&](int j) {
            return from + j < s.k_count ? key_at(call, call.k, s, from + j, hk) : (int64_t)-1;
        };
        /* Where steps are rounded, the scale goes into the keys. */
        const auto key = [&](float x) { return to == EXACT ? x : rounded(to, rounded(to, x * k_descale) * softmax_scale); };
        __syncthreads();
        fetch(kv, pitch, KEYS, width, call.k, key_row, key);
        __syncthreads();
        scores(dots, q, kv, pitch, width, row, lane);
    };

    for (int64_t from = low; from < high; from += KEYS) {
        score(from);
#pragma unroll
        for (int r = 0; r < MINE; r++) {
#pragma unroll
            for (int c = 0; c < KEYS / LANES; c++) {
                const int64_t j = from + lane + LANES * c;
                if (j < seen[r].low || j >= seen[r].high)
                    continue;
                const float logit = logit_of(dots[r][c], scale, softcap, to);
                if (logit > top[r]) {
                    sum[r] = sum[r] * (double)expf(top[r] - logit) + 1.0;
                    top[r] = logit;
                } else {
                    sum[r] += (double)expf(logit - top[r]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < MINE; r++) {
        /* The sink has a share of the sum and no value row. It may be far above every logit. */
        const float sink = call.sink.data && h[r] < heads ? load(call.sink, h[r] * call.sink.stride[0]) : -INFINITY;
        float highest = fmaxf(top[r], sink);
        for (int apart = 1; apart < LANES; apart *= 2)
            highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, apart));
        double total = top[r] == -INFINITY ? 0.0 : sum[r] * (double)expf(top[r] - highest);
        for (int apart = 1; apart < LANES; apart *= 2)
            total += __shfl_xor_sync(0xffffffffu, total, apart);
        sum[r] = total + (sink == -INFINITY ? 0.0 : (double)expf(sink - highest));
        top[r] = highest;
    }

    double out[MINE][4 * CHUNKS] = {};
    for (int64_t from = low; from < high; from += KEYS) {
        score(from);
#pragma unroll
        for (int r = 0; r < MINE; r++) {
#pragma unroll
            for (int c = 0; c < KEYS / LANES; c++) {
                const int64_t j = from + lane + LANES * c;
                float weight = 0.0f;
                if (j >= seen[r].low && j < seen[r].high) {
                    weight = expf(logit_of(dots[r][c], scale, softcap, to) - top[r]);
                    if (to != EXACT)
                        weight = fp8 ? round_to(F8E4M3, weight * 256.0f) / 256.0f
                                     : rounded(to, (float)((double)weight / sum[r]));
                }
                weights[(row + r) * (KEYS + 1) + lane + LANES * c] = weight;
            }
        }
        const auto value_row = [&](int j) {
            return from + j < s.k_count ? key_at(call, call.v, s, from + j, hk) : (int64_t)-1;
        };
        __syncthreads();
        fetch(kv, pitch, KEYS, values, call.v, value_row,
              [&](float x) { return to == EXACT ? x : rounded(to, x * v_descale); });
        __syncthreads();
        float tile[MINE][4 * CHUNKS] = {};
        for (int j = 0; j < KEYS; j++) {
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int d = 4 * lane + 64 * c;
                const float4 v = d < values ? *(const float4 *)(kv + j * pitch + d) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
                for (int r = 0; r < MINE; r++) {
                    const float weight = weights[(row + r) * (KEYS + 1) + j];
                    tile[r][4 * c] = fmaf(weight, v.x, tile[r][4 * c]);
                    tile[r][4 * c + 1] = fmaf(weight, v.y, tile[r][4 * c + 1]);
                    tile[r][4 * c + 2] = fmaf(weight, v.z, tile[r][4 * c + 2]);
                    tile[r][4 * c + 3] = fmaf(weight, v.w, tile[r][4 * c + 3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < MINE; r++)
#pragma unroll
            for (int c = 0; c < 4 * CHUNKS; c++)
                out[r][c] += (double)tile[r][c];
    }

#pragma unroll
    for (int r = 0; r < MINE; r++) {
        if (first + row + r >= count)
            continue;
        const bool empty = position[r] >= s.q_count || sum[r] == 0.0;
        const double share = empty ? 0.0 : to == EXACT ? (double)v_descale / sum[r] : fp8 ? 1.0 / sum[r] : 1.0;
        const int64_t at = query_at(call.out, s, position[r], h[r]);
#pragma unroll
        for (int c = 0; c < 4 * CHUNKS; c++) {
            const int d = 4 * lane + 64 * (c / 4) + c % 4;
            if (d < values)
                store(call.out, at + d, (float)(out[r][c] * share));
        }
        if (lane == 0) {
            const int64_t place = call.lse.rank == 2
                ? h[r] * call.lse.stride[0] + s.q_first + position[r]
                : s.batch * call.lse.stride[0] + h[r] * call.lse.stride[1] + position[r];
            ((float *)call.lse.data)[place] = empty ? -INFINITY : (float)((double)top[r] + log(sum[r]));
        }
    }
}

/* ---- The calls ---- */

template <int CHUNKS>
static ks_status answer_with(const attention_forward_call &call, const ks_sample &sample, Rounding to)
{
    const int64_t heads = call.q.shape[call.q.rank - 2], key_heads = call.k.shape[call.k.rank - 2];
    const int64_t batches = call.cu_seqlens_q.data ? call.cu_seqlens_q.shape[0] - 1 : call.q.shape[0];
    const int64_t longest = call.cu_seqlens_q.data ? call.max_seqlen_q : call.q.shape[1];
    const int pitch = pitch_of((int)call.q.shape[call.q.rank - 1], (int)call.out.shape[call.out.rank - 1]);
    const dim3 grid((unsigned)((longest * (heads / key_heads) + ROWS - 1) / ROWS), (unsigned)key_heads, (unsigned)batches);
    if (batches > 65535 || key_heads > 65535)
        return KS_ERROR;
    if (cudaFuncSetAttribute(answer_rows<CHUNKS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes(pitch)) !=
        cudaSuccess)
        return KS_ERROR;
    if (grid.x > 0 && batches > 0)
        answer_rows<CHUNKS><<<grid, THREADS, shared_bytes(pitch), (cudaStream_t)call.stream>>>(call, sample, to);
    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;
}

static ks_status answer(const attention_forward_call *call, const ks_sample &sample, bool model)
{
    const Rounding to = !model ? EXACT : call->q.dtype == KS_F16 ? TO_F16 : TO_BF16;
    const int64_t width = call->q.shape[call->q.rank - 1], values = call->out.shape[call->out.rank - 1];
    if (width > WIDEST)
        return KS_ERROR;
    switch ((values + 63) / 64) {
    case 1: return answer_with<1>(*call, sample, to);
    case 2: return answer_with<2>(*call, sample, to);
    case 3: return answer_with<3>(*call, sample, to);
    case 4: return answer_with<4>(*call, sample, to);
    default: return KS_ERROR;
    }
}

static const ks_sample EVERYTHING = {0, 1, 0};

ks_status attention_forward(const attention_forward_call *call) { return answer(call, EVERYTHING, false); }

extern "C" ks_status attention_forward_sampled(const attention_forward_call *call, const ks_sample *sample)
{
    return answer(call, *sample, false);
}

extern "C" ks_status attention_forward_model(const attention_forward_call *call) { return answer(call, EVERYTHING, true); }

extern "C" ks_status attention_forward_model_sampled(const attention_forward_call *call, const ks_sample *sample)
{
    return answer(call, *sample, true);
}
