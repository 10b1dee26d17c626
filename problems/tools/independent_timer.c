/* Times two builds of one problem against each other, on its own terms: nothing of the evaluator is used.

     cc -O2 -std=gnu11 -I HEADERS independent_timer.c -o independent_timer -ldl -lm
     ./independent_timer PROBLEM SEED.so CANDIDATE.so [KEY=VALUE,...]...

   HEADERS holds the four generated headers. Each further argument is a scenario; the keys are the fields of the
   problem, `lens=a:b:c` stands for kv_lens (attention_forward is dense, or kvcache with `lens`), `warm=1` leaves the
   buffers in the caches. Without a scenario, a few built-in ones are timed.

   Method: a pool of SLOTS slots with random normal inputs of their own, one picked at random for each call; a buffer
   of SWEEP bytes is read before each call, so that it starts cold; the two libraries take turns in the order ABBA.
   Calls of a microsecond or less are not what this clock is for. Reported: the median time of each, the median of the
   ratios of neighbouring calls, and the largest difference of their outputs relative to the largest output. */
#include "attention_forward.h"
#include "gemm.h"
#include "layernorm.h"
#include "softmax.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 6, PAIRS = 60, SWEEP = 96 << 20, MOST_TENSORS = 16, MOST_CALL = 4096 };

typedef ks_status (*entry)(const void *);
typedef size_t (*workspace_of)(const void *);

/* ---- A scenario: keys and values ---- */

static long field(const char *scenario, const char *key, long otherwise)
{
    const size_t length = strlen(key);
    for (const char *at = scenario; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, key, length) && at[length] == '=')
            return strtol(at + length + 1, NULL, 10);
    return otherwise;
}

/* ---- Tensors ---- */

static void *zeroed(size_t bytes)
{
    void *p = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return memset(p, 0, (bytes + 511) / 256 * 256);
}

static float normal(void)
{
    float sum = -6.0f;
    for (int i = 0; i < 12; i++)
        sum += (float)rand() / (float)RAND_MAX;
    return sum;
}

static ks_tensor tensor(int32_t dtype, int rank, const int64_t *shape, int random)
{
    ks_tensor t = {.dtype = dtype, .rank = rank};
    int64_t count = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        t.shape[axis] = shape[axis];
        t.stride[axis] = count;
        count *= shape[axis];
    }
    t.data = zeroed((size_t)count * 4);
    for (int64_t i = 0; random && i < count; i++)
        ((float *)t.data)[i] = normal();
    return t;
}

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

/* ---- Calls. Every call struct is a header, tensors, attributes, workspace, size, stream, device. ---- */

struct call {
    unsigned char bytes[MOST_CALL];
    size_t workspace_at;
    ks_tensor *output;
};

#define BEGIN(type)                                                                                                    \
    _Static_assert(sizeof(type) <= MOST_CALL, "a call struct is larger than expected");                                \
    type *c = (type *)call->bytes;                                                                                     \
    c->struct_size = sizeof *c;                                                                                        \
    c->abi = KS_ABI;                                                                                                   \
    call->workspace_at = offsetof(type, workspace)

static void build_gemm(struct call *call, const char *s)
{
    const int64_t m = field(s, "M", 128), n = field(s, "N", 128), k = field(s, "K", 128);
    BEGIN(gemm_call);
    c->a = tensor(KS_F32, SHAPE(m, k), 1);
    c->b = tensor(KS_F32, SHAPE(k, n), 1);
    c->c = tensor(KS_F32, SHAPE(m, n), 0);
    call->output = &c->c;
}

static void build_softmax(struct call *call, const char *s)
{
    const int64_t rows = field(s, "rows", 128), cols = field(s, "cols", 128);
    BEGIN(softmax_call);
    c->x = tensor(KS_F32, SHAPE(rows, cols), 1);
    c->y = tensor(KS_F32, SHAPE(rows, cols), 0);
    call->output = &c->y;
}

static void build_layernorm(struct call *call, const char *s)
{
    const int64_t rows = field(s, "rows", 128), cols = field(s, "cols", 768);
    BEGIN(layernorm_call);
    c->x = tensor(KS_F32, SHAPE(rows, cols), 1);
    c->gamma = tensor(KS_F32, SHAPE(cols), 1);
    c->beta = tensor(KS_F32, SHAPE(cols), 1);
    c->y = tensor(KS_F32, SHAPE(rows, cols), 0);
    c->mean = tensor(KS_F32, SHAPE(rows), 0);
    c->rstd = tensor(KS_F32, SHAPE(rows), 0);
    c->eps = 1e-5;
    call->output = &c->y;
}

static void build_attention_forward(struct call *call, const char *s)
{
    const int64_t b = field(s, "B", 1), hq = field(s, "Hq", 2), hkv = field(s, "Hkv", hq), sq = field(s, "Sq", 128);
    const int64_t skv = field(s, "Skv", sq), d = field(s, "D", 64);
    BEGIN(attention_forward_call);
    c->q = tensor(KS_F32, SHAPE(b, sq, hq, d), 1);
    c->k = tensor(KS_F32, SHAPE(b, skv, hkv, d), 1);
    c->v = tensor(KS_F32, SHAPE(b, skv, hkv, d), 1);
    c->out = tensor(KS_F32, SHAPE(b, sq, hq, d), 0);
    c->lse = tensor(KS_F32, SHAPE(b, hq, sq), 0);
    const char *lens = strstr(s, "lens=");
    if (lens) {
        c->seqused_k = tensor(KS_I32, SHAPE(b), 0);
        lens += strlen("lens=");
        for (int64_t i = 0; i < b; i++) {
            char *end;
            ((int32_t *)c->seqused_k.data)[i] = (int32_t)strtol(lens, &end, 10);
            lens = *end == ':' ? end + 1 : lens;
        }
    }
    c->softmax_scale = 1.0 / sqrt((double)d);
    c->causal = field(s, "causal", 0);
    c->window_left = field(s, "left", -1);
    c->window_right = field(s, "right", -1);
    c->max_seqlen_q = sq;
    c->max_seqlen_k = skv;
    c->total_q = b * sq;
    call->output = &c->out;
}

struct problem {
    const char *name;
    void (*build)(struct call *, const char *);
    const char *scenarios[6];
};
static const struct problem PROBLEMS[] = {
    {"gemm", build_gemm, {"M=96,N=96,K=96", "M=127,N=129,K=65", "M=1,N=768,K=384", "M=13,N=256,K=256"}},
    {"softmax", build_softmax, {"rows=128,cols=128", "rows=33,cols=1009", "rows=4099,cols=7", "rows=1,cols=65536"}},
    {"layernorm", build_layernorm, {"rows=128,cols=768", "rows=67,cols=1021", "rows=2047,cols=19", "rows=24,cols=4096"}},
    {"attention_forward", build_attention_forward,
     {"B=1,Hq=2,Sq=128,D=64", "B=1,Hq=2,Sq=113,Skv=203,D=40,causal=1", "B=1,Hq=8,Hkv=2,Sq=72,D=64,causal=1",
      "B=1,Hq=4,Hkv=2,Sq=192,D=64,causal=1,left=47,right=0",
      "B=4,Hq=8,Hkv=2,Sq=1,Skv=384,D=128,causal=1,lens=384:97:203:1"}},
};

/* ---- The two sides ---- */

struct side {
    entry run;
    workspace_of workspace_bytes;
    void *workspace;
    size_t bytes;
};

static struct side load(const char *path, const char *name)
{
    struct side side = {0};
    char symbol[128];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    *(void **)&side.run = dlsym(library, name);
    snprintf(symbol, sizeof symbol, "%s_workspace", name);
    *(void **)&side.workspace_bytes = dlsym(library, symbol);
    if (!side.run) {
        fprintf(stderr, "%s does not export %s\n", path, name);
        exit(2);
    }
    return side;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double call_once(const struct side *side, struct call *call, int cold)
{
    static volatile unsigned char *sweep;
    static unsigned long sink;
    if (!sweep)
        sweep = memset(zeroed(SWEEP), 1, SWEEP);
    for (size_t i = 0; cold && i < SWEEP; i += 64)
        sink += sweep[i];
    memcpy(call->bytes + call->workspace_at, &side->workspace, sizeof side->workspace);
    memcpy(call->bytes + call->workspace_at + sizeof(void *), &side->bytes, sizeof side->bytes);
    const double start = seconds();
    const ks_status status = side->run(call->bytes);
    const double took = seconds() - start;
    if (status != KS_OK) {
        fprintf(stderr, "status %d\n", (int)status);
        exit(1);
    }
    return took;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static double difference(struct side *sides, struct call *call)
{
    int64_t count = 1;
    for (int axis = 0; axis < call->output->rank; axis++)
        count *= call->output->shape[axis];
    const float *out = call->output->data;
    float *first = zeroed((size_t)count * sizeof *first);
    double largest = 0.0, worst = 0.0;
    call_once(&sides[0], call, 0);
    memcpy(first, out, (size_t)count * sizeof *first);
    memset(call->output->data, 0xff, (size_t)count * sizeof *first);
    call_once(&sides[1], call, 0);
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)first[i]));
        const double d = fabs((double)first[i] - (double)out[i]);
        worst = d <= worst ? worst : d; /* NaN counts as worse */
    }
    free(first);
    return worst / largest;
}

static double time_scenario(const struct problem *problem, struct side *sides, const char *scenario)
{
    static struct call calls[SLOTS];
    static double times[2][2 * PAIRS], ratios[2 * PAIRS];
    const int cold = !field(scenario, "warm", 0);
    for (int i = 0; i < SLOTS; i++) {
        memset(&calls[i], 0, sizeof calls[i]);
        problem->build(&calls[i], scenario);
    }
    for (int s = 0; s < 2; s++) {
        sides[s].bytes = sides[s].workspace_bytes ? sides[s].workspace_bytes(calls[0].bytes) : 0;
        sides[s].workspace = sides[s].bytes ? zeroed(sides[s].bytes) : NULL;
    }
    const double off = difference(sides, &calls[0]);
    for (int pair = 0; pair < PAIRS; pair++) {
        const int first = pair % 2;
        const int order[4] = {first, !first, !first, first};
        double took[4];
        for (int i = 0; i < 4; i++) {
            took[i] = call_once(&sides[order[i]], &calls[rand() % SLOTS], cold);
            times[order[i]][2 * pair + i / 2] = took[i];
        }
        for (int i = 0; i < 4; i += 2)
            ratios[2 * pair + i / 2] = order[i] == 0 ? took[i] / took[i + 1] : took[i + 1] / took[i];
    }
    const double seed = median(times[0], 2 * PAIRS), candidate = median(times[1], 2 * PAIRS);
    const double ratio = median(ratios, 2 * PAIRS);
    printf("%-56s %9.1f us %9.1f us %7.2fx   outputs differ by %.1e\n", scenario, 1e6 * seed, 1e6 * candidate, ratio, off);
    return ratio; /* the buffers are left to the system: a few megabytes a scenario */
}

int main(int argc, char **argv)
{
    const struct problem *problem = NULL;
    for (size_t i = 0; argc >= 4 && i < sizeof PROBLEMS / sizeof *PROBLEMS; i++)
        if (!strcmp(PROBLEMS[i].name, argv[1]))
            problem = &PROBLEMS[i];
    if (!problem) {
        fprintf(stderr, "usage: %s gemm|softmax|layernorm|attention_forward SEED.so CANDIDATE.so [KEY=VALUE,...]...\n",
                argv[0]);
        return 2;
    }
    struct side sides[2] = {load(argv[2], problem->name), load(argv[3], problem->name)};
    double logs = 0.0;
    int count = 0;
    printf("%-56s %12s %12s %8s\n", problem->name, "seed", "candidate", "ratio");
    if (argc > 4)
        for (int i = 4; i < argc; i++, count++)
            logs += log(time_scenario(problem, sides, argv[i]));
    else
        for (int i = 0; problem->scenarios[i]; i++, count++)
            logs += log(time_scenario(problem, sides, problem->scenarios[i]));
    printf("geometric mean of %d: %.2fx\n", count, exp(logs / count));
    return 0;
}
