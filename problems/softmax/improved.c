/* Softmax of every row in whole vectors: largest element, exponentials and their sum, scale by the reciprocal.

   The exponential is computed LANES at a time. Columns that do not fill a vector are covered by the row's last vector,
   which overlaps the one before it. Rows shorter than a vector are taken many at a time: their exponentials lie side
   by side and are computed as one long run. */
#include "softmax.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

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

static inline vec larger(vec a, vec b)
{
    const ivec greater = a > b;
    return (vec)((greater & (ivec)a) | (~greater & (ivec)b));
}

/* e^x for x <= 0, to about 1 ulp, subnormal results included.
   x = n ln 2 + r with |r| <= ln 2 / 2. 2^n may be too small for a float, so it is applied as 2^half 2^(n - half), both
   assembled from their exponent bits: only the second product rounds. */
static inline vec exp_of(vec x)
{
    const float round = 0x1.8p23f; /* adding it rounds to an integer, which then stands in the low bits */
    const ivec counts = x >= -104.0f;
    x = (vec)((ivec)x & counts); /* keeps n in range; the lane is cleared at the end */
    const vec shifted = x * 1.44269504f + round;
    const vec n = shifted - round;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec p = r * 1.392621347e-3f + 8.363202972e-3f;
    p = p * r + 4.166655444e-2f;
    p = p * r + 1.666657685e-1f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    const ivec power = (ivec)shifted - 0x4b400000; /* the bits of `round` */
    const ivec half = power >> 1;
    p *= (vec)((half + 127) << 23);
    p *= (vec)((power - half + 127) << 23);
    return (vec)((ivec)p & counts);
}

static inline float sum_of(vec v)
{
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

static float largest_of(const float *x, int64_t cols)
{
    vec a = load(x), b = load(x + cols - LANES);
    int64_t j = LANES;
    for (; j + 2 * LANES <= cols; j += 2 * LANES) {
        a = larger(load(x + j), a);
        b = larger(load(x + j + LANES), b);
    }
    for (; j + LANES <= cols; j += LANES)
        a = larger(load(x + j), a);
    float lanes[LANES];
    store(lanes, larger(a, b));
    float most = lanes[0];
    for (int l = 1; l < LANES; l++)
        most = lanes[l] > most ? lanes[l] : most;
    return most;
}

static void wide_row(const float *x, float *y, int64_t cols)
{
    const float largest = largest_of(x, cols);
    vec sums[2] = {{0}, {0}};
    int64_t j = 0;
    for (; j + 2 * LANES <= cols; j += 2 * LANES) {
        for (int u = 0; u < 2; u++) {
            const vec e = exp_of(load(x + j + u * LANES) - largest);
            store(y + j + u * LANES, e);
            sums[u] += e;
        }
    }
    for (; j + LANES <= cols; j += LANES) {
        const vec e = exp_of(load(x + j) - largest);
        store(y + j, e);
        sums[0] += e;
    }
    const vec last = exp_of(load(x + cols - LANES) - largest);
    if (j < cols)
        sums[1] += only_last(last, cols - j);

    const float scale = 1.0f / sum_of(sums[0] + sums[1]);
    for (j = 0; j + LANES <= cols; j += LANES)
        store(y + j, load(y + j) * scale);
    store(y + cols - LANES, last * scale);
}

/* Rows of `cols` < LANES elements. */
static void narrow_rows(const float *x, float *y, int64_t rows, int64_t cols)
{
    enum { RUN = 1024 };
    float run[RUN + LANES] = {0};
    const int64_t together = RUN / cols;
    for (int64_t first = 0; first < rows; first += together) {
        const int64_t count = rows - first < together ? rows - first : together;
        for (int64_t i = 0; i < count; i++) {
            const float *row = x + (first + i) * cols;
            float largest = row[0];
            for (int64_t j = 1; j < cols; j++)
                largest = row[j] > largest ? row[j] : largest;
            for (int64_t j = 0; j < cols; j++)
                run[i * cols + j] = row[j] - largest;
        }
        for (int64_t j = 0; j < count * cols; j += LANES)
            store(run + j, exp_of(load(run + j)));
        for (int64_t i = 0; i < count; i++) {
            const float *row = run + i * cols;
            float sum = 0.0f;
            for (int64_t j = 0; j < cols; j++)
                sum += row[j];
            const float scale = 1.0f / sum;
            for (int64_t j = 0; j < cols; j++)
                y[(first + i) * cols + j] = row[j] * scale;
        }
    }
}

ks_status softmax(const softmax_call *call)
{
    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];
    const float *x = call->x.data;
    float *y = call->y.data;

    if (cols < LANES) {
        narrow_rows(x, y, rows, cols);
        return KS_OK;
    }
    for (int64_t i = 0; i < rows; i++)
        wide_row(x + i * cols, y + i * cols, cols);
    return KS_OK;
}
