/* Attention by tiles of query rows that share their keys.

   The query heads of a group and the rows of a sequence form one list of rows per key head. ROWS neighbours of that
   list are worked on together: their scores against all keys they see (register tiles of ROWS x 2 vectors over a
   transposed copy of the keys), the softmax of each row, and the weighted sum of the value rows (register tiles of
   ROWS x 4 vectors). Short lists, as in decoding, would not repay the transposed copy: their scores are plain dot
   products. Runs what the seed runs. */
#include "attention_forward.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { ROWS = 4, BLOCK = 2 * LANES, TRANSPOSE_FROM = 6 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float quad __attribute__((vector_size(4 * sizeof(float))));
typedef int32_t ivec __attribute__((vector_size(LANES * sizeof(int32_t))));

#define INLINE static inline __attribute__((always_inline))

/* ---- Vectors ---- */

INLINE vec load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

INLINE float sum_of(vec v)
{
    quad q[LANES / 4];
    memcpy(q, &v, sizeof v);
    for (int l = 1; l < LANES / 4; l++)
        q[0] += q[l];
    return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

INLINE vec larger(vec a, vec b)
{
    const ivec greater = a > b;
    return (vec)((greater & (ivec)a) | (~greater & (ivec)b));
}

INLINE float largest_of(vec v)
{
    float lanes[LANES], largest;
    store(lanes, v);
    largest = lanes[0];
    for (int l = 1; l < LANES; l++)
        largest = lanes[l] > largest ? lanes[l] : largest;
    return largest;
}

/* e^x for x <= 0, to about 1 ulp; results below the smallest normal number become 0.
   x = n ln 2 + r with |r| <= ln 2 / 2, and 2^n is assembled from its exponent bits. */
INLINE vec exp_of(vec x)
{
    const float round = 0x1.8p23f; /* adding it rounds to an integer, which then stands in the low bits */
    const ivec normal = x >= -87.3f;
    x = (vec)((ivec)x & normal); /* keeps n in range; the lane is cleared at the end */
    const vec shifted = x * 1.44269504f + round;
    const vec n = shifted - round;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec p = r * 1.392621347e-3f + 8.363202972e-3f;
    p = p * r + 4.166655444e-2f;
    p = p * r + 1.666657685e-1f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    return (vec)(((ivec)p + ((ivec)shifted << 23)) & normal);
}

/* ---- One sequence and key head ---- */

struct problem {
    const float *q, *k, *v; /* first row, first head of the group */
    float *out, *lse;
    int64_t q_row, q_head, k_row, v_row, out_row, out_head, lse_head; /* strides */
    int64_t queries, keys, dim, value_dim, group;
    int64_t left, right; /* window; -1 is unbounded */
    float scale;
    float *transposed; /* keys in blocks of BLOCK: [block][dim][BLOCK]; NULL for short lists */
    float *scores;     /* ROWS rows of `score_row` */
    int64_t score_row;
};

/* Key positions, `high` excluded. */
struct range {
    int64_t low, high;
};

/* The keys that a query sees. */
static struct range seen(const struct problem *p, int64_t query)
{
    const int64_t diagonal = query + p->keys - p->queries;
    struct range r = {0, p->keys};
    if (p->left >= 0 && diagonal - p->left > r.low)
        r.low = diagonal - p->left;
    if (p->right >= 0 && diagonal + p->right + 1 < r.high)
        r.high = diagonal + p->right + 1;
    return r;
}

/* The first queries, which see no key: the mask is aligned with the last. */
static int64_t blind(const struct problem *p)
{
    const int64_t count = p->keys == 0 ? p->queries : p->right < 0 ? 0 : p->queries - p->keys - p->right;
    return count < 0 ? 0 : count;
}

static void clear(const struct problem *p, int64_t queries)
{
    for (int64_t h = 0; h < p->group; h++) {
        for (int64_t i = 0; i < queries; i++) {
            memset(p->out + i * p->out_row + h * p->out_head, 0, (size_t)p->value_dim * sizeof(float));
            p->lse[h * p->lse_head + i] = -INFINITY;
        }
    }
}

static void transpose_keys(const struct problem *p)
{
    for (int64_t first = 0; first < p->keys; first += BLOCK) {
        const int64_t count = p->keys - first < BLOCK ? p->keys - first : BLOCK;
        float *block = p->transposed + first * p->dim;
        for (int64_t j = 0; j < count; j++) { /* the scores of lanes behind them are never read */
            const float *key = p->k + (first + j) * p->k_row;
            for (int64_t d = 0; d < p->dim; d++)
                block[d * BLOCK + j] = key[d];
        }
    }
}

/* Scores of `rows` rows against the blocks that cover [low, high). `rows` is a constant where this is inlined. */
INLINE void score_blocks(const struct problem *p, int rows, const float *const *q, int64_t low, int64_t high)
{
    for (int64_t first = low / BLOCK * BLOCK; first < high; first += BLOCK) {
        const float *block = p->transposed + first * p->dim;
        vec even[ROWS], odd[ROWS];
        for (int r = 0; r < rows; r++)
            even[r] = odd[r] = (vec){0};
        for (int64_t d = 0; d < p->dim; d++) {
            const vec k0 = load(block + d * BLOCK), k1 = load(block + d * BLOCK + LANES);
            for (int r = 0; r < rows; r++) {
                even[r] += q[r][d] * k0;
                odd[r] += q[r][d] * k1;
            }
        }
        for (int r = 0; r < rows; r++) {
            store(p->scores + r * p->score_row + first, even[r] * p->scale);
            store(p->scores + r * p->score_row + first + LANES, odd[r] * p->scale);
        }
    }
}

/* Scores of one row by dot products, two keys at a time. */
static void score_dots(const struct problem *p, const float *q, int64_t low, int64_t high)
{
    const int64_t whole = p->dim / LANES * LANES;
    for (int64_t j = low; j < high; j += 2) {
        const float *k0 = p->k + j * p->k_row, *k1 = j + 1 < high ? k0 + p->k_row : k0;
        vec part0 = {0}, part1 = {0};
        for (int64_t d = 0; d < whole; d += LANES) {
            part0 += load(q + d) * load(k0 + d);
            part1 += load(q + d) * load(k1 + d);
        }
        float dot0 = sum_of(part0), dot1 = sum_of(part1);
        for (int64_t d = whole; d < p->dim; d++) {
            dot0 += q[d] * k0[d];
            dot1 += q[d] * k1[d];
        }
        p->scores[j] = dot0 * p->scale;
        p->scores[j + 1] = dot1 * p->scale; /* a row of scores has room for it */
    }
}

/* Turns the scores of one row into weights, in place: e^(s - max) within `own`, 0 in the rest of `all`.
   Returns their sum and, through `largest`, the maximum. */
static float weights_of(float *s, struct range own, struct range all, float *largest)
{
    for (int64_t j = all.low; j < own.low; j++)
        s[j] = 0.0f;
    for (int64_t j = own.high; j < all.high; j++)
        s[j] = 0.0f;
    /* Lanes behind the last key stand for no key. */
    const int64_t end = own.low + (own.high - own.low + LANES - 1) / LANES * LANES;
    float behind[LANES];
    memcpy(behind, s + own.high, sizeof behind);
    for (int64_t j = own.high; j < end; j++)
        s[j] = -INFINITY;

    vec most = load(s + own.low), sum = {0};
    for (int64_t j = own.low + LANES; j < end; j += LANES)
        most = larger(load(s + j), most);
    *largest = largest_of(most);
    for (int64_t j = own.low; j < end; j += LANES) {
        const vec w = exp_of(load(s + j) - *largest);
        store(s + j, w);
        sum += w;
    }
    memcpy(s + own.high, behind, sizeof behind);
    return sum_of(sum);
}

/* `rows` x `vectors` of the output from column `d` on: weights times values, times 1 / sum. */
INLINE void weigh(const struct problem *p, int rows, int vectors, struct range all, int64_t d, const float *inverse,
                  float *const *out)
{
    vec acc[ROWS][4];
    for (int r = 0; r < rows; r++)
        for (int u = 0; u < vectors; u++)
            acc[r][u] = (vec){0};
    for (int64_t j = all.low; j < all.high; j++) {
        const float *value = p->v + j * p->v_row + d;
        for (int u = 0; u < vectors; u++) {
            const vec x = load(value + u * LANES);
            for (int r = 0; r < rows; r++)
                acc[r][u] += p->scores[r * p->score_row + j] * x;
        }
    }
    for (int r = 0; r < rows; r++)
        for (int u = 0; u < vectors; u++)
            store(out[r] + d + u * LANES, acc[r][u] * inverse[r]);
}

INLINE void weigh_all(const struct problem *p, int rows, struct range all, const float *inverse, float *const *out)
{
    int64_t d = 0;
    for (; d + 4 * LANES <= p->value_dim; d += 4 * LANES)
        weigh(p, rows, 4, all, d, inverse, out);
    for (; d + LANES <= p->value_dim; d += LANES)
        weigh(p, rows, 1, all, d, inverse, out);
    if (d < p->value_dim && d > 0) {
        weigh(p, rows, 1, all, p->value_dim - LANES, inverse, out); /* overlaps the vector before it */
        return;
    }
    for (; d < p->value_dim; d++) {
        for (int r = 0; r < rows; r++) {
            float sum = 0.0f;
            for (int64_t j = all.low; j < all.high; j++)
                sum += p->scores[r * p->score_row + j] * p->v[j * p->v_row + d];
            out[r][d] = sum * inverse[r];
        }
    }
}

/* Rows `first` to `first + rows` of the list; each sees at least one key. */
INLINE void attend(const struct problem *p, int rows, int64_t first)
{
    const float *q[ROWS];
    float *out[ROWS], *lse[ROWS], inverse[ROWS];
    struct range own[ROWS], all = {p->keys, 0};
    int64_t query = first / p->group, head = first % p->group;
    for (int r = 0; r < rows; r++) {
        q[r] = p->q + query * p->q_row + head * p->q_head;
        out[r] = p->out + query * p->out_row + head * p->out_head;
        lse[r] = p->lse + head * p->lse_head + query;
        own[r] = seen(p, query);
        all.low = own[r].low < all.low ? own[r].low : all.low;
        all.high = own[r].high > all.high ? own[r].high : all.high;
        if (++head == p->group) {
            head = 0;
            query++;
        }
    }
    if (p->transposed)
        score_blocks(p, rows, q, all.low, all.high);
    else
        for (int r = 0; r < rows; r++)
            score_dots(p, q[r], all.low, all.high);
    for (int r = 0; r < rows; r++) {
        float largest;
        const float sum = weights_of(p->scores + r * p->score_row, own[r], all, &largest);
        inverse[r] = 1.0f / sum;
        *lse[r] = largest + logf(sum);
    }
    weigh_all(p, rows, all, inverse, out);
}

static void sequence(struct problem *p, float *transposed)
{
    const int64_t rows = p->queries * p->group;
    int64_t i = blind(p) * p->group;
    clear(p, blind(p));
    p->transposed = rows - i >= TRANSPOSE_FROM ? transposed : NULL;
    if (p->transposed) {
        transpose_keys(p);
        for (; i + ROWS <= rows; i += ROWS)
            attend(p, ROWS, i);
    }
    for (; i < rows; i++)
        attend(p, 1, i);
}

/* ---- The call ---- */

/* Floats of one row of scores: the last block and one vector may reach behind the last key. */
static int64_t score_row_of(const attention_forward_call *call)
{
    return (call->max_seqlen_k + BLOCK - 1) / BLOCK * BLOCK + BLOCK;
}

size_t attention_forward_workspace(const attention_forward_call *call)
{
    const int64_t row = score_row_of(call);
    return (size_t)(ROWS * row + row * call->q.shape[call->q.rank - 1]) * sizeof(float);
}

static int supported(const attention_forward_call *call)
{
    return call->q.dtype == KS_F32 && call->softcap == 0.0 && !call->sink.data && !call->page_table.data &&
           !call->leftpad_k.data;
}

/* All heads of one sequence. The pointers are those of its first rows. */
static void heads(const attention_forward_call *call, int64_t queries, int64_t keys, const float *q, const float *k,
                  const float *v, float *out, float *lse)
{
    const int64_t rank = call->q.rank, row = rank - 3, head = rank - 2;
    const int64_t key_heads = call->k.shape[head], group = call->q.shape[head] / key_heads;
    const int64_t lse_head = call->lse.stride[call->lse.rank - 2];
    float *workspace = call->workspace;
    struct problem p = {
        .q_row = call->q.stride[row], .q_head = call->q.stride[head],
        .k_row = call->k.stride[row], .v_row = call->v.stride[row],
        .out_row = call->out.stride[row], .out_head = call->out.stride[head], .lse_head = lse_head,
        .queries = queries, .keys = keys, .dim = call->q.shape[rank - 1], .value_dim = call->v.shape[rank - 1],
        .group = group, .left = call->window_left, .right = call->causal ? 0 : call->window_right,
        .scale = (float)call->softmax_scale, .scores = workspace, .score_row = score_row_of(call),
    };
    for (int64_t h = 0; h < key_heads; h++) {
        p.q = q + h * group * p.q_head;
        p.k = k + h * call->k.stride[head];
        p.v = v + h * call->v.stride[head];
        p.out = out + h * group * p.out_head;
        p.lse = lse + h * group * lse_head;
        sequence(&p, workspace + ROWS * p.score_row);
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
        const int32_t *qs = call->cu_seqlens_q.data, *ks = call->cu_seqlens_k.data;
        for (int64_t b = 0; b + 1 < call->cu_seqlens_q.shape[0]; b++)
            heads(call, qs[b + 1] - qs[b], ks[b + 1] - ks[b], q + qs[b] * call->q.stride[0],
                  k + ks[b] * call->k.stride[0], v + ks[b] * call->v.stride[0], out + qs[b] * call->out.stride[0],
                  lse + qs[b]);
        return KS_OK;
    }
    const int64_t stored = call->q.shape[1], value_dim = call->v.shape[3];
    for (int64_t b = 0; b < call->q.shape[0]; b++) {
        const int64_t queries = call->seqused_q.data ? ((int32_t *)call->seqused_q.data)[b] : stored;
        const int64_t keys = call->seqused_k.data ? ((int32_t *)call->seqused_k.data)[b] : call->k.shape[1];
        float *o = out + b * call->out.stride[0], *l = lse + b * call->lse.stride[0];
        heads(call, queries, keys, q + b * call->q.stride[0], k + b * call->k.stride[0], v + b * call->v.stride[0], o,
              l);
        /* Rows behind the used ones. */
        for (int64_t h = 0; h < call->q.shape[2]; h++) {
            for (int64_t i = queries; i < stored; i++) {
                memset(o + i * call->out.stride[1] + h * call->out.stride[2], 0, (size_t)value_dim * sizeof(float));
                l[h * call->lse.stride[1] + i] = -INFINITY;
            }
        }
    }
    return KS_OK;
}
