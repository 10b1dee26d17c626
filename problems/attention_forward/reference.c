/* Attention in double precision, for every dtype, layout and mask of the problem, straight from the definition.

   attention_forward        the reference
   attention_forward_model  the same with the intermediates rounded that kernels round: the weights P to the input
                            dtype before they multiply V (f8e4m3: after a shift by 2^8 that uses its range), scores,
                            sums and products to f32. The row sum is that of the unrounded P.

   Rows that see no key: out = 0, lse = -inf, or the sink's logit where there is a sink.
   Padded query rows behind seqused_q: out = 0, lse = -inf. */
#include "attention_forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Element types ---- */

/* Smallest normal exponent, mantissa bits and largest finite value of a binary format. */
struct format {
    int least_exponent, mantissa;
    double largest;
};
static const struct format F16 = {-14, 10, 65504.0};
static const struct format BF16 = {-126, 7, 0x1.fep127};
static const struct format F8E4M3 = {-6, 3, 448.0};

/* Rounds to nearest, ties to even, in one step; what is beyond the largest value becomes that value. */
static double round_to(struct format f, double x)
{
    if (x == 0.0 || !isfinite(x))
        return x;
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    const int leading = exponent - 1 < f.least_exponent ? f.least_exponent : exponent - 1;
    const double unit = ldexp(1.0, leading - f.mantissa);
    const double rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) > f.largest ? copysign(f.largest, rounded) : rounded;
}

static double decode(uint32_t bits, int exponent_bits, int mantissa_bits, int has_infinity)
{
    const int bias = (1 << (exponent_bits - 1)) - 1, all_ones = (1 << exponent_bits) - 1;
    const int exponent = (int)(bits >> mantissa_bits) & all_ones;
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1.0 : 1.0;
    if (exponent == all_ones && has_infinity)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == all_ones && mantissa == (1u << mantissa_bits) - 1)
        return NAN;
    if (exponent == 0)
        return sign * ldexp((double)mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((double)(mantissa | 1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static double load(const ks_tensor *t, int64_t index)
{
    switch (t->dtype) {
    case KS_F64:
        return ((const double *)t->data)[index];
    case KS_F32:
        return (double)((const float *)t->data)[index];
    case KS_F16:
        return decode(((const uint16_t *)t->data)[index], 5, 10, 1);
    case KS_BF16:
        return decode(((const uint16_t *)t->data)[index], 8, 7, 1);
    case KS_F8E4M3:
        return decode(((const uint8_t *)t->data)[index], 4, 3, 0);
    default:
        return NAN;
    }
}

/* Bits of a value that `round_to` has made exact in a 16-bit format. */
static uint16_t encode16(struct format f, double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double least = ldexp(1.0, f.least_exponent), size = fabs(x);
    if (size < least)
        return sign | (uint16_t)ldexp(size, f.mantissa - f.least_exponent);
    int exponent;
    const double fraction = frexp(size, &exponent); /* in [0.5, 1) */
    const int biased = exponent - 1 - f.least_exponent + 1;
    return sign | (uint16_t)((biased << f.mantissa) + (int)ldexp(2.0 * fraction - 1.0, f.mantissa));
}

static void store(const ks_tensor *t, int64_t index, double x)
{
    switch (t->dtype) {
    case KS_F64:
        ((double *)t->data)[index] = x;
        break;
    case KS_F32:
        ((float *)t->data)[index] = (float)x;
        break;
    case KS_F16:
        ((uint16_t *)t->data)[index] = encode16(F16, round_to(F16, x));
        break;
    case KS_BF16:
        ((uint16_t *)t->data)[index] = encode16(BF16, round_to(BF16, x));
        break;
    }
}

/* ---- One sequence ---- */

/* Where the rows of sequence b lie: element offsets of q and out, and the range of key positions in use. */
struct sequence {
    int64_t batch, q_first, q_count, k_first, k_count;
};

static int64_t entry(const ks_tensor *t, int64_t index)
{
    return ((const int32_t *)t->data)[index];
}

static struct sequence sequence_of(const attention_forward_call *call, int64_t b)
{
    struct sequence s = {b, 0, 0, 0, 0};
    if (call->cu_seqlens_q.data) {
        s.q_first = entry(&call->cu_seqlens_q, b);
        s.q_count = entry(&call->cu_seqlens_q, b + 1) - s.q_first;
        s.k_first = entry(&call->cu_seqlens_k, b);
        s.k_count = entry(&call->cu_seqlens_k, b + 1) - s.k_first;
        return s;
    }
    s.q_count = call->seqused_q.data ? entry(&call->seqused_q, b) : call->q.shape[1];
    s.k_first = call->leftpad_k.data ? entry(&call->leftpad_k, b) : 0;
    const int64_t end = call->seqused_k.data ? entry(&call->seqused_k, b) : call->k.shape[1];
    s.k_count = end > s.k_first ? end - s.k_first : 0;
    return s;
}

/* Element offset of row `position` of sequence b, head h, in q, out (and k, v unless they are paged). */
static int64_t row_of(const ks_tensor *t, int64_t b, int64_t position, int64_t h)
{
    if (t->rank == 3)
        return position * t->stride[0] + h * t->stride[1];
    return b * t->stride[0] + position * t->stride[1] + h * t->stride[2];
}

static int64_t key_row(const attention_forward_call *call, const ks_tensor *t, int64_t b, int64_t position, int64_t h)
{
    if (!call->page_table.data)
        return row_of(t, b, position, h);
    const int64_t page_size = t->shape[1];
    const int64_t page = entry(&call->page_table, b * call->page_table.stride[0] + position / page_size);
    return page * t->stride[0] + position % page_size * t->stride[1] + h * t->stride[2];
}

static double f32(int model, double x)
{
    return model ? (double)(float)x : x;
}

/* P as a kernel multiplies it with V. */
static double weight_of(int model, int32_t dtype, double p)
{
    if (!model)
        return p;
    switch (dtype) {
    case KS_F16:
        return round_to(F16, p);
    case KS_BF16:
        return round_to(BF16, p);
    case KS_F8E4M3:
        return round_to(F8E4M3, p * 256.0) / 256.0;
    default:
        return (double)(float)p;
    }
}

static double descale(const ks_tensor *t, int64_t b, int64_t h)
{
    return t->data ? load(t, b * t->stride[0] + h * t->stride[1]) : 1.0;
}

/* One query row of one head. `p` has room for every key, `o` for every value column. */
static void query_row(const attention_forward_call *call, int model, const struct sequence *s, int64_t i, int64_t h,
                      double *p, double *o)
{
    const int64_t rank = call->q.rank, dim = call->q.shape[rank - 1], value_dim = call->out.shape[rank - 1];
    const int64_t heads = call->q.shape[rank - 2], key_heads = call->k.shape[call->k.rank - 2];
    const int64_t hk = h / (heads / key_heads), b = s->batch;
    const int64_t q_row = row_of(&call->q, b, s->q_first + i, h), out_row = row_of(&call->out, b, s->q_first + i, h);
    const int64_t right = call->causal ? 0 : call->window_right;
    const int64_t diagonal = i + s->k_count - s->q_count;
    /* q_descale, too, goes by the key head. */
    const double scale = call->softmax_scale * descale(&call->q_descale, b, hk) * descale(&call->k_descale, b, hk);
    const double sink = call->sink.data ? load(&call->sink, h) : -INFINITY;

    double largest = sink;
    for (int64_t j = 0; j < s->k_count; j++) {
        const int visible = (call->window_left < 0 || j >= diagonal - call->window_left) &&
                            (right < 0 || j <= diagonal + right);
        p[j] = -INFINITY;
        if (!visible)
            continue;
        const int64_t k_row = key_row(call, &call->k, b, s->k_first + j, hk);
        double dot = 0.0;
        for (int64_t d = 0; d < dim; d++)
            dot += load(&call->q, q_row + d) * load(&call->k, k_row + d);
        double logit = f32(model, f32(model, dot) * scale);
        if (call->softcap > 0.0)
            logit = f32(model, call->softcap * tanh(logit / call->softcap));
        p[j] = logit;
        largest = fmax(largest, logit);
    }
    /* The sink has a share of the sum and no value row. */
    double sum = isfinite(sink) ? exp(sink - largest) : 0.0;
    for (int64_t d = 0; d < value_dim; d++)
        o[d] = 0.0;
    for (int64_t j = 0; j < s->k_count; j++) {
        if (p[j] == -INFINITY)
            continue;
        const double e = f32(model, exp(p[j] - largest));
        sum += e;
        const double w = weight_of(model, call->q.dtype, e);
        const int64_t v_row = key_row(call, &call->v, b, s->k_first + j, hk);
        for (int64_t d = 0; d < value_dim; d++)
            o[d] += w * load(&call->v, v_row + d);
    }
    sum = f32(model, sum);
    for (int64_t d = 0; d < value_dim; d++)
        store(&call->out, out_row + d, sum > 0.0 ? f32(model, o[d]) * descale(&call->v_descale, b, hk) / sum : 0.0);
    const int64_t position = s->q_first + i;
    const int64_t at = call->lse.rank == 2 ? h * call->lse.stride[0] + position
                                           : b * call->lse.stride[0] + h * call->lse.stride[1] + position;
    store(&call->lse, at, sum > 0.0 ? largest + log(sum) : -INFINITY);
}

/* ---- The call ---- */

static ks_status attend(const attention_forward_call *call, int model)
{
    const int64_t rank = call->q.rank, heads = call->q.shape[rank - 2], value_dim = call->out.shape[rank - 1];
    const int64_t batches = call->cu_seqlens_q.data ? call->cu_seqlens_q.shape[0] - 1 : call->q.shape[0];

    for (int64_t b = 0; b < batches; b++) {
        const struct sequence s = sequence_of(call, b);
        double *p = malloc((size_t)(s.k_count + value_dim) * sizeof *p);
        if (!p)
            return KS_ERROR;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < s.q_count; i++)
                query_row(call, model, &s, i, h, p, p + s.k_count);
        free(p);
        if (call->cu_seqlens_q.data)
            continue;
        for (int64_t i = s.q_count; i < call->q.shape[1]; i++) {
            for (int64_t h = 0; h < heads; h++) {
                for (int64_t d = 0; d < value_dim; d++)
                    store(&call->out, row_of(&call->out, b, i, h) + d, 0.0);
                store(&call->lse, b * call->lse.stride[0] + h * call->lse.stride[1] + i, -INFINITY);
            }
        }
    }
    return KS_OK;
}

ks_status attention_forward(const attention_forward_call *call)
{
    return attend(call, 0);
}

ks_status attention_forward_model(const attention_forward_call *call);

ks_status attention_forward_model(const attention_forward_call *call)
{
    return attend(call, 1);
}
