/* In place of step 3, honest: one query at a time as before, with the elements of a row in the lanes of the vectors. */
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
    return ((size_t)call->k.shape[1] + LANES) * sizeof(float);
}

/* One query, which sees the first `seen` keys. */
static void row(const float *q, const float *k, const float *v, float *out, float *weight, int64_t seen, int64_t dim)
{
    const float scale = 1.0f / sqrtf((float)dim);
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        vec part = {0};
        for (int64_t d = 0; d < dim; d += LANES)
            part += load(q + d) * load(k + j * dim + d);
        float dot = 0.0f;
        for (int l = 0; l < LANES; l++)
            dot += part[l];
        weight[j] = dot * scale;
        top = weight[j] > top ? weight[j] : top;
    }

    for (int l = 0; l < LANES; l++) /* the last vector may reach behind the last key */
        weight[seen + l] = -INFINITY;
    vec parts = {0};
    for (int64_t j = 0; j < seen; j += LANES) {
        const vec w = exp_of(load(weight + j) - top);
        store(weight + j, w);
        parts += w;
    }
    for (int l = 0; l < LANES; l++)
        sum += parts[l];

    for (int64_t d = 0; d < dim; d += LANES) {
        vec even = {0}, odd = {0};
        for (int64_t j = 0; j < seen; j += 2) {
            even += weight[j] * load(v + j * dim + d);
            if (j + 1 < seen)
                odd += weight[j + 1] * load(v + (j + 1) * dim + d);
        }
        store(out + d, (even + odd) / sum);
    }
}

ks_status causal_attention(const causal_attention_call *call)
{
    const float *q = call->q.data, *k = call->k.data, *v = call->v.data;
    float *out = call->out.data;
    const int64_t heads = call->q.shape[0], queries = call->q.shape[1], dim = call->q.shape[2];
    const int64_t keys = call->k.shape[1];
    if (dim % LANES != 0)
        return KS_UNSUPPORTED;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < queries; i++)
            row(q + (h * queries + i) * dim, k + h * keys * dim, v + h * keys * dim, out + (h * queries + i) * dim,
                call->workspace, i + keys - queries + 1, dim);
    return KS_OK;
}
