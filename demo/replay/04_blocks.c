/* Sixteen queries at a time, one in each lane of the vectors: a key that is loaded serves all of them.
   Two keys are multiplied side by side.
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
enum { ROWS = 16, VECS = ROWS / LANES };

typedef float vec __attribute__((vector_size(4 * LANES)));

size_t causal_attention_workspace(const causal_attention_call *call)
{
    const size_t keys = (size_t)call->k.shape[1], dim = (size_t)call->q.shape[2];
    return (keys + dim) * ROWS * sizeof(float);
}

/* e^x for x <= 0, to about 1 ulp: x = n ln 2 + r, and 2^n is made of its exponent bits. Far below 0 it stays at 1e-38. */
static inline float exp_of(float x)
{
    x = x < -87.0f ? -87.0f : x;
    const float shifted = x * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = r * 1.392621347e-3f + 8.363202972e-3f;
    p = p * r + 4.166655444e-2f;
    p = p * r + 1.666657685e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t bits, power;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&power, &shifted, sizeof power);
    bits = (int32_t)((uint32_t)bits + ((uint32_t)power << 23));
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* `count` columns of the weighted sum of the value rows, for all rows of the block. */
static inline __attribute__((always_inline)) void columns(int count, const float *weight, const float *v,
                                                          const float *sum, float *out, int64_t seen, int64_t dim)
{
    vec acc[4][VECS] = {0};
    for (int64_t j = 0; j < seen; j++) {
        vec w[VECS];
        memcpy(w, weight + j * ROWS, sizeof w);
        for (int c = 0; c < count; c++)
            for (int u = 0; u < VECS; u++)
                acc[c][u] += w[u] * v[j * dim + c];
    }
    for (int c = 0; c < count; c++)
        for (int r = 0; r < ROWS; r++)
            out[r * dim + c] = acc[c][r / LANES][r % LANES] / sum[r];
}

/* ROWS queries, the first of which sees the first `seen` keys, the next one more, and so on. */
static void block(const float *q, const float *k, const float *v, float *out, float *work, int64_t seen, int64_t dim)
{
    float *queries = work, *weight = work + dim * ROWS; /* [dim][ROWS], [keys][ROWS] */
    const float scale = 1.0f / sqrtf((float)dim);
    for (int r = 0; r < ROWS; r++)
        for (int64_t d = 0; d < dim; d++)
            queries[d * ROWS + r] = q[r * dim + d] * scale;

    const int64_t all = seen + ROWS - 1;
    for (int64_t j = 0; j + 1 < all; j += 2) {
        const float *k0 = k + j * dim, *k1 = k0 + dim;
        vec s[2][VECS] = {0};
        for (int64_t d = 0; d < dim; d++) {
            vec x[VECS];
            memcpy(x, queries + d * ROWS, sizeof x);
            for (int u = 0; u < VECS; u++) {
                s[0][u] += x[u] * k0[d];
                s[1][u] += x[u] * k1[d];
            }
        }
        memcpy(weight + j * ROWS, s, sizeof s);
    }
    for (int64_t j = seen; j < all; j++)
        for (int64_t r = 0; r <= j - seen; r++)
            weight[j * ROWS + r] = -INFINITY;

    float top[ROWS], sum[ROWS] = {0};
    for (int r = 0; r < ROWS; r++)
        top[r] = -INFINITY;
    for (int64_t j = 0; j < all; j++)
        for (int r = 0; r < ROWS; r++)
            top[r] = weight[j * ROWS + r] > top[r] ? weight[j * ROWS + r] : top[r];
    for (int64_t j = 0; j < all; j++)
        for (int r = 0; r < ROWS; r++)
            sum[r] += weight[j * ROWS + r] = exp_of(weight[j * ROWS + r] - top[r]);

    int64_t d = 0;
    for (; d + 4 <= dim; d += 4)
        columns(4, weight, v + d, sum, out + d, all, dim);
    for (; d < dim; d++)
        columns(1, weight, v + d, sum, out + d, all, dim);
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
    for (int64_t h = 0; h < heads; h++, q += queries * dim, out += queries * dim, k += keys * dim, v += keys * dim) {
        int64_t i = 0;
        while (queries >= ROWS && i < queries) {
            i = i + ROWS <= queries ? i : queries - ROWS;
            block(q + i * dim, k, v, out + i * dim, call->workspace, i + keys - queries + 1, dim);
            i += ROWS;
        }
        for (; i < queries; i++)
            row(q + i * dim, k, v, out + i * dim, call->workspace, i + keys - queries + 1, dim);
    }
    return KS_OK;
}
