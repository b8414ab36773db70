/* fuse_cuda.cu - which epilogues of cuBLASLt are correct, and worth using.
 *
 * A bias is checked once for each type, and so is a GELU: its form is not documented, so the values
 * tell which of ours it is, if any.  Whether it is faster than a separate pass depends on the
 * shape.  It is timed once per group of similar shapes, and the answer is kept, as it changes bits:
 * the pass reads values that were rounded.  Timing runs on a stream and in memory of its own
 * (tune_cuda.cu).
 */
#include <math.h>
#include <stdio.h>

#include "core/base/choices.h"
#include "core/base/mem.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/tune_cuda.h"

/* ---- values ---------------------------------------------------------------------------------- */

enum { SIDE = 8, A = 0, B, BIAS, PRE, C, MATRICES };

/* A product whose result has few bits: c[i][j] = i - 4 + j / 8. */
static float expected(int i, int j) {
    return (float)(i - SIDE / 2) + (float)j / 8.0f;
}

/* Small matrices of a check, on the host and on the device. */
template <class T> struct check {
    T host[MATRICES][SIDE * SIDE];
    T *room;
    sr_dtype dtype;
    T (*round)(float);
    float (*widen)(T);
};

template <class T> static void fill_check(check<T> *k) {
    memset(k->host, 0, sizeof k->host);
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            if (j == 0) k->host[A][i * SIDE] = k->round(expected(i, 0));
            k->host[B][i * SIDE + j] = k->round(1.0f);
            k->host[BIAS][j] = k->round((float)j / 8.0f);
        }
}

/* Computes the product with cuBLASLt; *ran: whether that was possible. */
template <class T>
static sr_status run_check(bool *ran, check<T> *k, products *state, cuda_host *h, sr_act act) {
    cublasLtMatmulAlgo_t algorithm;
    lt_product l;
    lt_call call;
    *ran = false;
    fill_check(k);
    SR_TRY(
        cuda_check(cudaMemcpyAsync(k->room, k->host, sizeof k->host, cudaMemcpyDefault, h->stream),
                   "cannot upload"));
    matrix m[MATRICES];
    for (int i = 0; i < MATRICES; i++)
        m[i] = matrix_at(k->room + i * SIDE * SIDE, k->dtype, SIDE, SIDE);
    product p = product_of(m[C], m[A], m[B]);
    p.bias = m[BIAS].data;
    p.act = act;
    p.pre = act != SR_ACT_NONE ? m[PRE].data : nullptr;
    SR_TRY(lt_describe(&l, "cuda", &p, false));
    SR_TRY(lt_prepare(&call, state, &l, "cuda"));
    SR_TRY(tuner_first(&algorithm, ran, state, &call, "cuda"));
    if (!*ran) return SR_OK;
    cublasStatus_t st = lt_run(state, &call, &algorithm, m[C].data, h->stream);
    *ran = !lt_lacks(st);
    if (!*ran) return SR_OK;
    SR_TRY(lt_check_product(state->lt, st, "cuda", &l));
    SR_TRY(cuda_finish(h, nullptr));
    return cuda_check(cudaMemcpy(k->host, k->room, sizeof k->host, cudaMemcpyDefault),
                      "cannot download");
}

/* Whether a matrix holds the sums, rounded. */
template <class T> static bool holds_sums(const check<T> *k, int which) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            if (k->widen(k->host[which][i * SIDE + j]) != expected(i, j)) return false;
    return true;
}

static float gelu_erf(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
}

static float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

/* The two forms differ by 4e-4 at -3. */
template <class T> static bool holds_gelu(const check<T> *k, float (*gelu)(float)) {
    const float rounding = k->dtype == SR_BF16 ? 4e-3f : 1e-4f;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            float wanted = gelu(expected(i, j));
            float miss = fabsf(k->widen(k->host[C][i * SIDE + j]) - wanted);
            if (!(miss <= rounding * fabsf(wanted) + 2e-5f)) return false;
        }
    return true;
}

template <class T> static sr_status check_type(check<T> *k, products *state, cuda_host *h) {
    bool ran;
    int type = k->dtype == SR_BF16;
    SR_TRY(run_check(&ran, k, state, h, SR_ACT_NONE));
    state->adds_bias[type] = ran && holds_sums(k, C);
    if (!state->adds_bias[type]) return SR_OK;
    SR_TRY(run_check(&ran, k, state, h, SR_ACT_GELU));
    state->gelu[type] = !ran || !holds_sums(k, PRE) ? SR_ACT_NONE
                        : holds_gelu(k, gelu_erf)   ? SR_ACT_GELU
                        : holds_gelu(k, gelu_tanh)  ? SR_ACT_GELU_TANH
                                                    : SR_ACT_NONE;
    return SR_OK;
}

static float same(float x) {
    return x;
}

sr_status fuse_check(products *state, cuda_host *h) {
    void *room;
    check<float> f32 = {{}, nullptr, SR_F32, same, same};
    check<sr_bf16> bf16 = {{}, nullptr, SR_BF16, sr_bf16_from_f32, sr_bf16_to_f32};
    SR_TRY(cuda_check(cudaMalloc(&room, sizeof f32.host), "cannot allocate memory"));
    f32.room = (float *)room;
    bf16.room = (sr_bf16 *)room;
    sr_status st = check_type(&f32, state, h);
    if (st == SR_OK) st = check_type(&bf16, state, h);
    cudaFree(room);
    return st;
}

/* ---- time ------------------------------------------------------------------------------------ */

enum { REPEATS = 5, LEAST_ROWS = 16, MOST_ROWS = 8192 };

/* Layers that share an answer: rows rounded to a power of two, beyond which time grows in
 * proportion. */
struct layer {
    sr_dtype dtype;
    sr_act act;
    int64_t rows, columns, inner;
};

static layer layer_of(const product *p, sr_act act) {
    layer l = {p->c.dtype, act, LEAST_ROWS, p->c.cols, p->a.cols};
    while (l.rows < p->c.rows && l.rows < MOST_ROWS) l.rows *= 2;
    return l;
}

/* "gelu bf16 8192 4096 1024" */
static void key_of(char key[SR_CHOICE_KEY], const layer *l, bool tf32) {
    snprintf(key, SR_CHOICE_KEY, "gelu %s %lld %lld %lld",
             l->dtype == SR_BF16 ? "bf16"
             : tf32              ? "tf32"
                                 : "f32",
             (long long)l->rows, (long long)l->columns, (long long)l->inner);
}

/* Numbers of magnitude 1/8 to 1/4: on zeros a chip draws less power and runs faster than in a step.
 */
KERNEL(256, 4) void fill_noise(global<uint32_t> to, int64_t words, bool in_bf16) {
    int64_t i = (int64_t)block_x() * threads() + thread();
    if (i >= words) return;
    uint32_t h = (uint32_t)i * 0x9E3779B9u;
    h = (h ^ h >> 15) * 0x85EBCA6Bu;
    h ^= h >> 13;
    to[i] = in_bf16 ? (h & 0x807F807Fu) | 0x3E003E00u : (h & 0x807FFFFFu) | 0x3E000000u;
}

/* A layer, and a GPU with a queue and workspace for the trial. */
struct trial {
    layer of;
    product p; /* c and pre: (rows, columns) */
    void *room;
    cudaEvent_t start, stop;
    products own;
    cuda_host host;
    gpu on;
};

static void set_apart(trial *t, const products *state, const gpu *g) {
    t->own = *state;
    t->own.workspace = t->room;
    t->host = *cuda_of(g);
    t->host.lt = &t->own;
    t->host.stream = tuner_stream(state->tuner);
    t->host.capturing = false;
    t->on = *g;
    t->on.host = &t->host;
}

static void close_trial(trial *t) {
    cudaFree(t->room);
    if (t->start != nullptr) cudaEventDestroy(t->start);
    if (t->stop != nullptr) cudaEventDestroy(t->stop);
}

static cudaError_t open_trial(trial *t, const products *state, const gpu *g, const layer *of) {
    const size_t size = sr_dtype_size(of->dtype), x = (size_t)(of->rows * of->inner) * size;
    const size_t w = (size_t)(of->columns * of->inner) * size,
                 y = (size_t)(of->rows * of->columns) * size, b = (size_t)of->columns * size;
    const size_t x_end = (x + 255) / 256 * 256, w_end = x_end + (w + 255) / 256 * 256;
    const size_t all = w_end + 2 * y + b; /* y is a multiple of 256: 16 rows of 8 columns or more */
    *t = trial{};
    t->of = *of;
    cudaError_t e = cudaMalloc(&t->room, LT_WORKSPACE + all);
    if (e != cudaSuccess) return e;
    set_apart(t, state, g);
    char *at = (char *)t->room + LT_WORKSPACE;
    e = cudaEventCreate(&t->start);
    if (e == cudaSuccess) e = cudaEventCreate(&t->stop);
    t->p = product_of(matrix_at(at + w_end, of->dtype, of->rows, of->columns),
                      matrix_at(at, of->dtype, of->rows, of->inner),
                      transposed(matrix_at(at + x_end, of->dtype, of->columns, of->inner)));
    t->p.pre = at + w_end + y;
    t->p.bias = at + w_end + 2 * y;
    return e;
}

static sr_status fill_trial(trial *t) {
    const layer *of = &t->of;
    char *from = (char *)t->room + LT_WORKSPACE;
    int64_t words =
        ((char *)t->p.bias - from + of->columns * (int64_t)sr_dtype_size(of->dtype)) / 4;
    return launch(&t->on, "linear", fill_noise, dim(ceil_div((size_t)words, 256)), 256, 0,
                  gpu_pointer((uint32_t *)from, (size_t)words), words, of->dtype == SR_BF16);
}

/* The layer by one product, or by a product and a pass. */
static sr_status run_layer(trial *t, bool fused) {
    product p = t->p;
    const layer *of = &t->of;
    p.act = of->act;
    if (fused) return gemm(&t->on, "linear", &p);
    p.act = SR_ACT_NONE;
    p.pre = nullptr;
    p.c.data = t->p.pre;
    SR_TRY(gemm(&t->on, "linear", &p));
    return bias_act(&t->on, "linear", t->p.c.data, nullptr, t->p.pre, nullptr, of->dtype, of->rows,
                    of->columns, of->act);
}

static sr_status time_layer(float *ms, trial *t, bool fused) {
    cudaStream_t stream = t->host.stream;
    cudaError_t e = cudaEventRecord(t->start, stream);
    SR_TRY(run_layer(t, fused));
    if (e == cudaSuccess) e = cudaEventRecord(t->stop, stream);
    if (e == cudaSuccess) e = cudaEventSynchronize(t->stop);
    if (e == cudaSuccess) e = cudaEventElapsedTime(ms, t->start, t->stop);
    return trial_ended(e, "linear", t->of.rows, t->of.columns, t->of.inner);
}

/* Medians of both, which run in turns. */
static sr_status time_both(float *pass, float *product, trial *t) {
    float ms[2][REPEATS + 1];
    for (int i = 0; i <= REPEATS; i++) /* the first chooses algorithms */
        for (int fused = 0; fused < 2; fused++) SR_TRY(time_layer(&ms[fused][i], t, fused != 0));
    *pass = trial_median(ms[0] + 1, REPEATS);
    *product = trial_median(ms[1] + 1, REPEATS);
    return SR_OK;
}

static sr_status compare(bool *pays, const products *state, gpu *g, const layer *of) {
    trial t;
    float product = INFINITY, pass = INFINITY;
    cuda_host *h = cuda_of(g);
    *pays = false;
    if (!h->capturing) /* other work would disturb the timing */
        SR_TRY(cuda_finish(h, nullptr));
    sr_status st = cuda_check(open_trial(&t, state, g, of), "cannot time products");
    if (st == SR_OK) st = fill_trial(&t);
    if (st == SR_OK) st = time_both(&pass, &product, &t);
    close_trial(&t);
    *pays = st == SR_OK && product < 0.98f * pass;
    return st;
}

sr_status fuse_pays(bool *pays, products *state, gpu *g, sr_act act, const product *p) {
    enum { UNKNOWN, YES, NO };
    char key[SR_CHOICE_KEY];
    *pays = false;
    if (act == SR_ACT_NONE || state->gelu[p->c.dtype == SR_BF16] != act) return SR_OK;
    layer of = layer_of(p, act);
    key_of(key, &of, cuda_of(g)->tf32);
    uint64_t known = tuner_number(state->tuner, key);
    if (known != YES && known != NO) {
        sr_status st = compare(pays, state, g, &of);
        if (st != SR_OK && st != SR_ENOMEM) return st;
        known = *pays ? YES : NO;
        tuner_keep_number(state->tuner, key, known, st == SR_OK);
        uint64_t first = tuner_number(state->tuner, key); /* perhaps from another process */
        if (first == YES || first == NO) known = first;
    }
    *pays = known == YES;
    return SR_OK;
}
