/* Causal attention in double precision, straight from the definition; slow and plain on purpose. */
#include "causal_attention.h"

#include <math.h>
#include <stdlib.h>

ks_status causal_attention(const causal_attention_call *call)
{
    const float *q = call->q.data, *k = call->k.data, *v = call->v.data;
    float *out = call->out.data;
    const int64_t heads = call->q.shape[0], queries = call->q.shape[1], dim = call->q.shape[2];
    const int64_t keys = call->k.shape[1];
    double *weight = malloc((size_t)keys * sizeof *weight);
    if (!weight)
        return KS_ERROR;
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < queries; i++) {
            const int64_t seen = i + keys - queries + 1;
            double top = -INFINITY, sum = 0.0;
            for (int64_t j = 0; j < seen; j++) {
                double dot = 0.0;
                for (int64_t d = 0; d < dim; d++)
                    dot += (double)q[(h * queries + i) * dim + d] * (double)k[(h * keys + j) * dim + d];
                weight[j] = dot / sqrt((double)dim);
                top = fmax(top, weight[j]);
            }
            for (int64_t j = 0; j < seen; j++)
                sum += weight[j] = exp(weight[j] - top);
            for (int64_t d = 0; d < dim; d++) {
                double value = 0.0;
                for (int64_t j = 0; j < seen; j++)
                    value += weight[j] * (double)v[(h * keys + j) * dim + d];
                out[(h * queries + i) * dim + d] = (float)(value / sum);
            }
        }
    }
    free(weight);
    return KS_OK;
}
