/* Attention, one query row at a time: scores, softmax, weighted sum of the value rows.

   Runs dense, packed (varlen) and padded (kvcache) f32 with grouped heads, causal mask and windows.
   The workspace holds the scores of one row. */
#include "attention_forward.h"

#include <math.h>

size_t attention_forward_workspace(const attention_forward_call *call)
{
    return (size_t)call->max_seqlen_k * sizeof(float);
}

static int supported(const attention_forward_call *call)
{
    return call->q.dtype == KS_F32 && call->softcap == 0.0 && !call->sink.data && !call->page_table.data &&
           !call->leftpad_k.data;
}

/* One sequence: rows of q and out, and of k and v, are `stride[rank - 3]` apart. */
static void sequence(const attention_forward_call *call, int64_t q_first, int64_t q_count, int64_t k_first,
                     int64_t k_count, const float *q, const float *k, const float *v, float *out, float *lse)
{
    const int64_t rank = call->q.rank;
    const int64_t heads = call->q.shape[rank - 2], dim = call->q.shape[rank - 1];
    const int64_t groups = heads / call->k.shape[rank - 2], value_dim = call->v.shape[rank - 1];
    const int64_t *qs = call->q.stride + rank - 3, *ks = call->k.stride + rank - 3;
    const int64_t *vs = call->v.stride + rank - 3, *os = call->out.stride + rank - 3;
    const int64_t lse_head = call->lse.stride[call->lse.rank - 2];
    const int64_t left = call->window_left, right = call->causal ? 0 : call->window_right;
    const float scale = (float)call->softmax_scale;
    float *p = call->workspace;

    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < q_count; i++) {
            const float *query = q + (q_first + i) * qs[0] + h * qs[1];
            float *o = out + (q_first + i) * os[0] + h * os[1];
            const int64_t diagonal = i + k_count - q_count;
            int64_t low = 0, high = k_count;
            if (left >= 0 && diagonal - left > low)
                low = diagonal - left;
            if (right >= 0 && diagonal + right + 1 < high)
                high = diagonal + right + 1;

            float largest = -INFINITY;
            for (int64_t j = low; j < high; j++) {
                const float *key = k + (k_first + j) * ks[0] + (h / groups) * ks[1];
                float s = 0.0f;
                for (int64_t d = 0; d < dim; d++)
                    s += query[d] * key[d];
                p[j] = s * scale;
                if (p[j] > largest)
                    largest = p[j];
            }
            float sum = 0.0f;
            for (int64_t d = 0; d < value_dim; d++)
                o[d] = 0.0f;
            for (int64_t j = low; j < high; j++) {
                const float *value = v + (k_first + j) * vs[0] + (h / groups) * vs[1];
                const float weight = expf(p[j] - largest);
                sum += weight;
                for (int64_t d = 0; d < value_dim; d++)
                    o[d] += weight * value[d];
            }
            if (low < high) {
                for (int64_t d = 0; d < value_dim; d++)
                    o[d] /= sum;
                lse[h * lse_head + q_first + i] = largest + logf(sum);
            } else {
                lse[h * lse_head + q_first + i] = -INFINITY;
            }
        }
    }
}

ks_status attention_forward(const attention_forward_call *call)
{
    if (!supported(call))
        return KS_UNSUPPORTED;
    if (call->workspace_bytes < attention_forward_workspace(call))
        return KS_ERROR;
    const float *q = call->q.data, *k = call->k.data, *v = call->v.data;
    float *out = call->out.data, *lse = call->lse.data;

    if (call->cu_seqlens_q.data) {
        const int32_t *q_start = call->cu_seqlens_q.data, *k_start = call->cu_seqlens_k.data;
        for (int64_t b = 0; b + 1 < call->cu_seqlens_q.shape[0]; b++)
            sequence(call, q_start[b], q_start[b + 1] - q_start[b], k_start[b], k_start[b + 1] - k_start[b], q, k, v,
                     out, lse);
        return KS_OK;
    }
    const int64_t heads = call->q.shape[2], value_dim = call->v.shape[3];
    for (int64_t b = 0; b < call->q.shape[0]; b++) {
        const int64_t q_count = call->seqused_q.data ? ((int32_t *)call->seqused_q.data)[b] : call->q.shape[1];
        const int64_t k_count = call->seqused_k.data ? ((int32_t *)call->seqused_k.data)[b] : call->k.shape[1];
        float *o = out + b * call->out.stride[0], *l = lse + b * call->lse.stride[0];

        sequence(call, 0, q_count, 0, k_count, q + b * call->q.stride[0], k + b * call->k.stride[0],
                 v + b * call->v.stride[0], o, l);
        /* Rows behind the used ones. */
        for (int64_t i = q_count; i < call->q.shape[1]; i++) {
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t d = 0; d < value_dim; d++)
                    o[i * call->out.stride[1] + h * call->out.stride[2] + d] = 0.0f;
                l[h * call->lse.stride[1] + i] = -INFINITY;
            }
        }
    }
    return KS_OK;
}
