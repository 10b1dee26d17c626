/* Layer normalisation of every row in whole vectors.

   Both sums run in four independent vectors, which hides the latency of the additions and also rounds less than one
   long chain. The row stays in the first-level cache between the passes. Columns that do not fill a vector are covered
   by the row's last vector, which overlaps the one before it. */
#include "layernorm.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { WAYS = 4, STEP = WAYS * LANES };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float quad __attribute__((vector_size(4 * sizeof(float))));
typedef int32_t ivec __attribute__((vector_size(LANES * sizeof(int32_t))));

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

static inline float sum_of(const vec parts[WAYS])
{
    const vec v = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    quad q[LANES / 4];
    memcpy(q, &v, sizeof v);
    for (int l = 1; l < LANES / 4; l++)
        q[0] += q[l];
    return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

/* Clears the lanes of the row's last vector that whole vectors before it have covered already. */
static inline vec only_last(vec v, int64_t rest)
{
    ivec lane;
    for (int l = 0; l < LANES; l++)
        lane[l] = l;
    return (vec)((ivec)v & (lane >= (int32_t)(LANES - rest)));
}

static float mean_of(const float *x, int64_t cols)
{
    vec parts[WAYS] = {{0}, {0}, {0}, {0}};
    int64_t j = 0;
    for (; j + STEP <= cols; j += STEP)
        for (int u = 0; u < WAYS; u++)
            parts[u] += load(x + j + u * LANES);
    for (; j + LANES <= cols; j += LANES)
        parts[0] += load(x + j);
    if (j < cols)
        parts[1] += only_last(load(x + cols - LANES), cols - j);
    return sum_of(parts) / (float)cols;
}

static float variance_of(const float *x, int64_t cols, float mean)
{
    vec parts[WAYS] = {{0}, {0}, {0}, {0}};
    int64_t j = 0;
    for (; j + STEP <= cols; j += STEP) {
        for (int u = 0; u < WAYS; u++) {
            const vec d = load(x + j + u * LANES) - mean;
            parts[u] += d * d;
        }
    }
    for (; j + LANES <= cols; j += LANES) {
        const vec d = load(x + j) - mean;
        parts[0] += d * d;
    }
    if (j < cols) {
        const vec d = only_last(load(x + cols - LANES) - mean, cols - j);
        parts[1] += d * d;
    }
    return sum_of(parts) / (float)cols;
}

static inline void scale_and_shift(const float *x, float *y, const float *gamma, const float *beta, float mean,
                                   float rstd)
{
    store(y, (load(x) - mean) * rstd * load(gamma) + load(beta));
}

static void wide_row(const layernorm_call *call, int64_t i)
{
    const int64_t cols = call->x.shape[1];
    const float *x = (const float *)call->x.data + i * cols;
    const float *gamma = call->gamma.data, *beta = call->beta.data;
    float *y = (float *)call->y.data + i * cols;
    const float mean = mean_of(x, cols);
    const float rstd = 1.0f / sqrtf(variance_of(x, cols, mean) + (float)call->eps);

    for (int64_t j = 0; j + LANES <= cols; j += LANES)
        scale_and_shift(x + j, y + j, gamma + j, beta + j, mean, rstd);
    if (cols % LANES) {
        const int64_t last = cols - LANES;
        scale_and_shift(x + last, y + last, gamma + last, beta + last, mean, rstd);
    }
    ((float *)call->mean.data)[i] = mean;
    ((float *)call->rstd.data)[i] = rstd;
}

/* Fewer columns than lanes. */
static void narrow_row(const layernorm_call *call, int64_t i)
{
    const int64_t cols = call->x.shape[1];
    const float *x = (const float *)call->x.data + i * cols;
    const float *gamma = call->gamma.data, *beta = call->beta.data;
    float *y = (float *)call->y.data + i * cols;

    float sum = 0.0f, squares = 0.0f;
    for (int64_t j = 0; j < cols; j++)
        sum += x[j];
    const float mean = sum / (float)cols;
    for (int64_t j = 0; j < cols; j++)
        squares += (x[j] - mean) * (x[j] - mean);
    const float rstd = 1.0f / sqrtf(squares / (float)cols + (float)call->eps);
    for (int64_t j = 0; j < cols; j++)
        y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
    ((float *)call->mean.data)[i] = mean;
    ((float *)call->rstd.data)[i] = rstd;
}

ks_status layernorm(const layernorm_call *call)
{
    const int64_t rows = call->x.shape[0];

    if (call->x.shape[1] < LANES) {
        for (int64_t i = 0; i < rows; i++)
            narrow_row(call, i);
    } else {
        for (int64_t i = 0; i < rows; i++)
            wide_row(call, i);
    }
    return KS_OK;
}
