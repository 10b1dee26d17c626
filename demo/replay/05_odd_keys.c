/* Sixteen queries at a time, one in each lane of the vectors: a key that is loaded serves all of them.
   Two keys are multiplied side by side; behind an odd number of keys the last one stands in for both.
   The last block is moved back so that it ends with the last query. Fewer than sixteen queries go one by one. */
#include "causal_attention.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { ROWS = 16, VECS = ROWS / LANES, COLUMNS = VECS > 2 ? 2 : 4 };

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

static inline vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec larger(vec a, vec b)
{
    const ivec first = a > b;
    return (vec)(((ivec)a & first) | ((ivec)b & ~first));
}

/* e^x for x <= 0, to about 1 ulp; 0 below 1e-38. x = n ln 2 + r, and 2^n is made of its exponent bits. */
static inline vec exp_of(vec x)
{
    const ivec normal = x >= -87.3f;
    x = (vec)((ivec)x & normal);
    const vec shifted = x * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec p = r * 1.392621347e-3f + 8.363202972e-3f;
    p = p * r + 4.166655444e-2f;
    p = p * r + 1.666657685e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return (vec)(((ivec)p + ((ivec)shifted << 23)) & normal);
}

size_t causal_attention_workspace(const causal_attention_call *call)
{
    const size_t keys = (size_t)call->k.shape[1], dim = (size_t)call->q.shape[2];
    return (keys + 1 + dim) * ROWS * sizeof(float);
}

/* ROWS queries, the first of which sees the first `seen` keys, the next one more, and so on. */
static void block(const float *q, const float *k, const float *v, float *out, float *work, int64_t seen, int64_t dim)
{
    float *queries = work, *weight = work + dim * ROWS, sum[ROWS], value[ROWS]; /* [dim][ROWS], [keys][ROWS] */
    const float scale = 1.0f / sqrtf((float)dim);
    for (int r = 0; r < ROWS; r++)
        for (int64_t d = 0; d < dim; d++)
            queries[d * ROWS + r] = q[r * dim + d] * scale;

    const int64_t all = seen + ROWS - 1;
    for (int64_t j = 0; j < all; j += 2) {
        const float *k0 = k + j * dim, *k1 = j + 1 < all ? k0 + dim : k0;
        vec s0[VECS] = {0}, s1[VECS] = {0};
        for (int64_t d = 0; d < dim; d++) {
            for (int u = 0; u < VECS; u++) {
                const vec x = load(queries + d * ROWS + u * LANES);
                s0[u] += x * k0[d];
                s1[u] += x * k1[d];
            }
        }
        for (int u = 0; u < VECS; u++) {
            store(weight + j * ROWS + u * LANES, s0[u]);
            store(weight + (j + 1) * ROWS + u * LANES, s1[u]);
        }
    }
    for (int64_t j = seen; j < all; j++) /* keys behind a query's own position */
        for (int64_t r = 0; r <= j - seen; r++)
            weight[j * ROWS + r] = -INFINITY;

    for (int u = 0; u < ROWS; u += LANES) {
        vec top = load(weight + u), part = {0};
        for (int64_t j = 1; j < all; j++)
            top = larger(load(weight + j * ROWS + u), top);
        for (int64_t j = 0; j < all; j++) {
            const vec w = exp_of(load(weight + j * ROWS + u) - top);
            store(weight + j * ROWS + u, w);
            part += w;
        }
        store(sum + u, part);
    }

    for (int64_t d = 0; d < dim; d += COLUMNS) {
        vec acc[COLUMNS][VECS] = {0};
        for (int64_t j = 0; j < all; j++) {
            for (int u = 0; u < VECS; u++) {
                const vec w = load(weight + j * ROWS + u * LANES);
                for (int c = 0; c < COLUMNS; c++)
                    acc[c][u] += w * v[j * dim + d + c];
            }
        }
        for (int c = 0; c < COLUMNS; c++) {
            for (int u = 0; u < VECS; u++)
                store(value + u * LANES, acc[c][u]);
            for (int r = 0; r < ROWS; r++)
                out[r * dim + d + c] = value[r] / sum[r];
        }
    }
}

/* One query, which sees the first `seen` keys. */
static void row(const float *restrict q, const float *restrict k, const float *restrict v, float *restrict out,
                float *restrict score, int64_t seen, int64_t dim)
{
    const float scale = 1.0f / sqrtf((float)dim);
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        float dot = 0.0f;
        for (int64_t d = 0; d < dim; d++)
            dot += q[d] * k[j * dim + d];
        score[j] = dot * scale;
        top = score[j] > top ? score[j] : top;
    }
    for (int64_t d = 0; d < dim; d++)
        out[d] = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        const float weight = expf(score[j] - top);
        sum += weight;
        for (int64_t d = 0; d < dim; d++)
            out[d] += weight * v[j * dim + d];
    }
    for (int64_t d = 0; d < dim; d++)
        out[d] /= sum;
}

ks_status causal_attention(const causal_attention_call *call)
{
    const float *q = call->q.data, *k = call->k.data, *v = call->v.data;
    float *out = call->out.data;
    const int64_t heads = call->q.shape[0], queries = call->q.shape[1], dim = call->q.shape[2];
    const int64_t keys = call->k.shape[1];
    if (dim % ROWS != 0)
        return KS_UNSUPPORTED;
    for (int64_t h = 0; h < heads; h++, q += queries * dim, out += queries * dim, k += keys * dim, v += keys * dim) {
        const int64_t before = keys - queries + 1; /* keys that the first query sees */
        for (int64_t i = 0; queries < ROWS && i < queries; i++)
            row(q + i * dim, k, v, out + i * dim, call->workspace, i + before, dim);
        for (int64_t i = 0; queries >= ROWS && i < queries; i += ROWS) {
            const int64_t first = i + ROWS <= queries ? i : queries - ROWS;
            block(q + first * dim, k, v, out + first * dim, call->workspace, first + before, dim);
        }
    }
    return KS_OK;
}
