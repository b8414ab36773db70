/* fuse_cuda.cu - which epilogues of cuBLASLt do what they should, and pay.
 *
 * A bias is checked once for each type, a GELU as well: its form is not documented, so the values
 * decide which of ours it is, if any.  Whether it is faster than a pass of its own is timed once
 * and kept, as it changes bits: the pass reads values that were rounded.
 */
#include <math.h>

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

/* Computes the product with cuBLASLt; *ran: whether it could. */
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
    *ran = *ran && lt_run(state, &call, &algorithm, m[C].data, h->stream) == CUBLAS_STATUS_SUCCESS;
    if (!*ran) return SR_OK;
    SR_TRY(cuda_failed_later(h, cudaStreamSynchronize(h->stream)));
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

enum { ROWS = 2048, INNER = 1024, COLUMNS = 4096, REPEATS = 4 };

/* A layer of zeros. */
struct trial {
    product p; /* c and pre: (ROWS, COLUMNS) */
    void *room;
    cudaEvent_t start, stop;
};

static void close_trial(trial *t) {
    cudaFree(t->room);
    if (t->start != nullptr) cudaEventDestroy(t->start);
    if (t->stop != nullptr) cudaEventDestroy(t->stop);
}

static cudaError_t open_trial(trial *t, sr_dtype dtype, cudaStream_t stream) {
    const size_t size = sr_dtype_size(dtype), x = (size_t)ROWS * INNER * size;
    const size_t w = (size_t)COLUMNS * INNER * size, y = (size_t)ROWS * COLUMNS * size;
    *t = trial{};
    cudaError_t e = cudaMalloc(&t->room, x + w + 2 * y);
    if (e == cudaSuccess)
        e = cudaMemset2DAsync(t->room, x + w + 2 * y, 0, x + w + 2 * y, 1, stream);
    if (e == cudaSuccess) e = cudaEventCreate(&t->start);
    if (e == cudaSuccess) e = cudaEventCreate(&t->stop);
    char *at = (char *)t->room;
    t->p =
        product_of(matrix_at(at + x + w, dtype, ROWS, COLUMNS), matrix_at(at, dtype, ROWS, INNER),
                   transposed(matrix_at(at + x, dtype, COLUMNS, INNER)));
    t->p.pre = at + x + w + y;
    t->p.bias = at;
    return e;
}

/* The layer by one product, or by a product and a pass. */
static sr_status run_layer(gpu *g, const trial *t, sr_act act, bool fused) {
    product p = t->p;
    p.act = act;
    if (fused) return gemm(g, "linear", &p);
    p.act = SR_ACT_NONE;
    p.pre = nullptr;
    p.c.data = t->p.pre;
    SR_TRY(gemm(g, "linear", &p));
    return bias_act(g, "linear", t->p.c.data, nullptr, t->p.pre, nullptr, p.c.dtype, ROWS, COLUMNS,
                    act);
}

static sr_status time_layer(float *least, gpu *g, const trial *t, sr_act act, bool fused) {
    cudaStream_t stream = cuda_of(g)->stream;
    *least = INFINITY;
    for (int i = 0; i <= REPEATS; i++) {
        float ms = INFINITY;
        cudaError_t e = cudaEventRecord(t->start, stream);
        SR_TRY(run_layer(g, t, act, fused));
        if (e == cudaSuccess) e = cudaEventRecord(t->stop, stream);
        if (e == cudaSuccess) e = cudaEventSynchronize(t->stop);
        if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, t->start, t->stop);
        SR_TRY(cuda_check(e, "cannot time products"));
        if (i > 0 && ms < *least) *least = ms; /* the first chooses algorithms */
    }
    return SR_OK;
}

static sr_status compare(bool *pays, gpu *g, sr_act act, sr_dtype dtype) {
    trial t;
    float product = INFINITY, pass = INFINITY;
    sr_status st = cuda_check(open_trial(&t, dtype, cuda_of(g)->stream), "cannot time products");
    if (st == SR_OK) st = time_layer(&pass, g, &t, act, false);
    if (st == SR_OK) st = time_layer(&product, g, &t, act, true);
    close_trial(&t);
    *pays = st == SR_OK && product < 0.98f * pass;
    return st;
}

sr_status fuse_pays(bool *pays, products *state, gpu *g, sr_act act, sr_dtype dtype) {
    static const char *const keys[] = {"gelu f32", "gelu bf16", "gelu tf32"};
    enum { UNKNOWN, YES, NO };
    const int low = dtype == SR_BF16, type = low ? 1 : cuda_of(g)->tf32 ? 2 : 0;
    const char *key = keys[type];
    *pays = false;
    if (act == SR_ACT_NONE || state->gelu[low] != act) return SR_OK;
    if (state->gelu_pays[type] == UNKNOWN)
        state->gelu_pays[type] = (int)tuner_number(state->tuner, key);
    if (state->gelu_pays[type] == UNKNOWN) {
        if (cuda_of(g)->capturing) return SR_OK; /* not the time to measure */
        sr_status st = compare(pays, g, act, dtype);
        if (st != SR_OK && st != SR_ENOMEM) return st;
        int answer = *pays ? YES : NO;
        if (st == SR_OK) tuner_keep_number(state->tuner, key, (uint64_t)answer);
        int first = (int)tuner_number(state->tuner, key); /* of another process, perhaps */
        state->gelu_pays[type] = first != UNKNOWN ? first : answer;
    }
    *pays = state->gelu_pays[type] == YES;
    return SR_OK;
}
