/* One query at a time, as before; each key is copied beside the query's scores before it is multiplied, so that the
   multiplications read from the nearest cache only. */
#include "causal_attention.h"

#include <math.h>
#include <string.h>

size_t causal_attention_workspace(const causal_attention_call *call)
{
    return (size_t)(call->k.shape[1] + call->k.shape[2]) * sizeof(float);
}

/* One query, which sees the first `seen` keys. */
static void row(const float *restrict q, const float *restrict k, const float *restrict v, float *restrict out,
                float *restrict score, int64_t seen, int64_t dim)
{
    const float scale = 1.0f / sqrtf((float)dim);
    float *key = score + seen;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        memcpy(key, k + j * dim, (size_t)dim * sizeof *key);
        float dot = 0.0f;
        for (int64_t d = 0; d < dim; d++)
            dot += q[d] * key[d];
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
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < queries; i++)
            row(q + (h * queries + i) * dim, k + h * keys * dim, v + h * keys * dim, out + (h * queries + i) * dim,
                call->workspace, i + keys - queries + 1, dim);
    return KS_OK;
}
