/* C = A B by register tiles: ROWS x (2 vectors) of C stay in registers while the depth is walked.

   B is read where it lies. The columns that do not fill a tile are copied, padded with zeros, into the workspace;
   the tile is then the same code, and only its store is partial. A product with one column is a row of dot
   products instead, and would waste the tile. */
#include "gemm.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { ROWS = 4, COLS = 2 * LANES };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float quad __attribute__((vector_size(4 * sizeof(float))));

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

static inline float sum_of(vec v)
{
    quad q[LANES / 4];
    memcpy(q, &v, sizeof v);
    for (int l = 1; l < LANES / 4; l++)
        q[0] += q[l];
    return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

/* `rows` x COLS of C; `rows` is a constant where this is inlined. Writes the first `width` columns. */
static inline __attribute__((always_inline)) void tile(int rows, int64_t depth, const float *a, const float *b,
                                                       int64_t b_stride, float *c, int64_t c_stride, int64_t width)
{
    vec low[ROWS], high[ROWS];
    for (int r = 0; r < rows; r++)
        low[r] = high[r] = (vec){0};
    for (int64_t p = 0; p < depth; p++) {
        const vec b0 = load(b + p * b_stride), b1 = load(b + p * b_stride + LANES);
        for (int r = 0; r < rows; r++) {
            const float x = a[r * depth + p];
            low[r] += x * b0;
            high[r] += x * b1;
        }
    }
    for (int r = 0; r < rows; r++) {
        if (width == COLS) {
            store(c + r * c_stride, low[r]);
            store(c + r * c_stride + LANES, high[r]);
        } else {
            float lanes[COLS];
            store(lanes, low[r]);
            store(lanes + LANES, high[r]);
            memcpy(c + r * c_stride, lanes, (size_t)width * sizeof(float));
        }
    }
}

static void columns(int64_t rows, int64_t depth, const float *a, const float *b, int64_t b_stride, float *c,
                    int64_t c_stride, int64_t width)
{
    int64_t i = 0;
    for (; i + ROWS <= rows; i += ROWS)
        tile(ROWS, depth, a + i * depth, b, b_stride, c + i * c_stride, c_stride, width);
    for (; i < rows; i++)
        tile(1, depth, a + i * depth, b, b_stride, c + i * c_stride, c_stride, width);
}

static float dot(int64_t depth, const float *a, const float *b)
{
    enum { STEP = 4 * LANES };
    vec part[4] = {{0}, {0}, {0}, {0}};
    int64_t p = 0;
    for (; p + STEP <= depth; p += STEP)
        for (int u = 0; u < 4; u++)
            part[u] += load(a + p + u * LANES) * load(b + p + u * LANES);
    float sum = sum_of((part[0] + part[1]) + (part[2] + part[3]));
    for (; p < depth; p++)
        sum += a[p] * b[p];
    return sum;
}

size_t gemm_workspace(const gemm_call *call)
{
    return (size_t)call->a.shape[1] * COLS * sizeof(float);
}

ks_status gemm(const gemm_call *call)
{
    const int64_t rows = call->c.shape[0], cols = call->c.shape[1], depth = call->a.shape[1];
    const float *a = call->a.data;
    const float *b = call->b.data;
    float *c = call->c.data;

    if (cols == 1) {
        for (int64_t i = 0; i < rows; i++)
            c[i] = dot(depth, a + i * depth, b);
        return KS_OK;
    }
    int64_t j = 0;
    for (; j + COLS <= cols; j += COLS)
        columns(rows, depth, a, b + j, cols, c + j, cols, COLS);
    if (j < cols) {
        if (call->workspace_bytes < gemm_workspace(call))
            return KS_ERROR;
        float *panel = call->workspace;
        const int64_t width = cols - j;
        for (int64_t p = 0; p < depth; p++) {
            memcpy(panel + p * COLS, b + p * cols + j, (size_t)width * sizeof(float));
            memset(panel + p * COLS + width, 0, (size_t)(COLS - width) * sizeof(float));
        }
        columns(rows, depth, a, panel, COLS, c + j, cols, width);
    }
    return KS_OK;
}
