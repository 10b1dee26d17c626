/* The loops exchanged: each key is taken up once, for all queries that see it, and not once for each query.
   The workspace holds the scores of all queries, in the order in which they are made: score[key][query]. */
#include "causal_attention.h"

#include <math.h>

size_t causal_attention_workspace(const causal_attention_call *call)
{
    return (size_t)(call->q.shape[1] * call->k.shape[1]) * sizeof(float);
}

/* The scores of one head. */
static void scores(const float *restrict q, const float *restrict k, float *restrict score, int64_t queries,
                   int64_t keys, int64_t dim)
{
    const float scale = 1.0f / sqrtf((float)dim);
    for (int64_t j = 0; j < keys; j++) {
        const int64_t first = j - (keys - queries);
        for (int64_t i = first > 0 ? first : 0; i < queries; i++) {
            float dot = 0.0f;
            for (int64_t d = 0; d < dim; d++)
                dot += q[i * dim + d] * k[j * dim + d];
            score[j * queries + i] = dot * scale;
        }
    }
}

/* Softmax and weighted sum of one query, which sees the first `seen` keys. */
static void row(const float *restrict score, const float *restrict v, float *restrict out, int64_t queries,
                int64_t seen, int64_t dim)
{
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < seen; j++)
        top = score[j * queries] > top ? score[j * queries] : top;
    for (int64_t d = 0; d < dim; d++)
        out[d] = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        const float weight = expf(score[j * queries] - top);
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
    float *out = call->out.data, *score = call->workspace;
    const int64_t heads = call->q.shape[0], queries = call->q.shape[1], dim = call->q.shape[2];
    const int64_t keys = call->k.shape[1];
    for (int64_t h = 0; h < heads; h++) {
        scores(q + h * queries * dim, k + h * keys * dim, score, queries, keys, dim);
        for (int64_t i = 0; i < queries; i++)
            row(score + i, v + h * keys * dim, out + (h * queries + i) * dim, queries, i + keys - queries + 1, dim);
    }
    return KS_OK;
}
