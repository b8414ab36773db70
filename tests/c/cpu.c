/* cpu.c - the cpu device against plain loops in double, on every instruction set; the same bits
 * on 1, 2, 3 and 8 threads, and regardless of neighbours. */
#include <math.h>
#include <stdlib.h>

#include "core/base/thread.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/fail.h"

/* ---- tensors by hand ------------------------------------------------------------------------- */

enum { MOST = 64 };
static sr_device device;
static sr_tensor tensors[MOST];
static sr_storage storages[MOST];
static int used;

static void open_device(const char *isa, int threads) {
    setenv("SEQRUN_ISA", isa, 1);
    device = (sr_device){.name = "cpu", .backend = &sr_backend_cpu, .real = SR_F32};
    CHECK_OK(sr_threads_new(&device.threads, threads));
    CHECK_OK(sr_backend_cpu.open(&device));
}

static void close_device(void) {
    sr_backend_cpu.close(&device);
    sr_threads_free(device.threads);
}

static void free_tensors(void) {
    while (used > 0) sr_free_aligned(storages[--used].data);
}

static sr_tensor *make(sr_dtype dtype, int64_t rows, int64_t cols) {
    sr_tensor *t = &tensors[used];
    sr_storage *s = &storages[used++];
    size_t bytes = (size_t)(rows * (cols > 0 ? cols : 1)) * sr_dtype_size(dtype);
    *s = (sr_storage){.device = &device, .bytes = bytes, .refs = 1};
    if (sr_alloc_aligned(&s->data, bytes > 0 ? bytes : 64) != SR_OK) abort();
    memset(s->data, 0xFF, bytes); /* NaN reveals elements that are never written */
    *t = (sr_tensor){.storage = s, .dtype = dtype, .ndim = cols > 0 ? 2 : 1, .refs = 1};
    t->shape[0] = rows, t->shape[1] = cols;
    t->stride[0] = cols > 0 ? cols : 1, t->stride[1] = 1;
    return t;
}

static float *data(sr_tensor *t) {
    return SR_DATA(float, t);
}

static sr_tensor *filled(uint32_t key, int64_t rows, int64_t cols, float size) {
    sr_tensor *t = make(SR_F32, rows, cols);
    int64_t n = rows * (cols > 0 ? cols : 1);
    for (int64_t i = 0; i < n; i++) {
        sr_u32x4 c = {{(uint32_t)i, key, 0, 0}};
        data(t)[i] = (sr_unit(sr_philox(c, 1, 10).w[0]) * 2 - 1) * size;
    }
    return t;
}

static sr_tensor *zeros(int64_t rows, int64_t cols) {
    return filled(0, rows, cols, 0.0f);
}

/* ||got - want|| / ||want|| */
static double distance(const float *got, const double *want, int64_t n) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    return sqrt(error / (size > 0 ? size : 1));
}

/* ---- a layout by hand ------------------------------------------------------------------------ */

typedef struct fixed {
    sr_layout layout;
    int32_t start[16], len[16], longest[16], owner[1024], position[1024];
    uint32_t uid[16], epoch[16];
} fixed;

static void lay(fixed *f, int count, const int32_t *len, int gap, int64_t rows) {
    memset(f, 0, sizeof *f);
    sr_layout *l = &f->layout;
    *l = (sr_layout){.rows = rows,
                     .sequences = count,
                     .start = f->start,
                     .len = f->len,
                     .uid = f->uid,
                     .epoch = f->epoch,
                     .owner = f->owner,
                     .position = f->position,
                     .longest_first = f->longest,
                     .seed = 77};
    for (int64_t r = 0; r < rows; r++) f->owner[r] = -1;
    int32_t at = 0;
    for (int s = 0; s < count; s++, at += gap) {
        f->start[s] = at, f->len[s] = len[s], f->uid[s] = 100u + (uint32_t)s, f->epoch[s] = 3;
        for (int32_t i = 0; i < len[s]; i++) f->owner[at + i] = s, f->position[at + i] = i;
        at += len[s];
        f->longest[s] = s;
        if (len[s] > l->longest) l->longest = len[s];
    }
}

/* The dropout decision of one element, as specified. */
static double mask(const sr_layout *l, int s, sr_dropout d, uint32_t row, uint32_t col,
                   uint32_t head) {
    if (d.keep == 256) return 1;
    sr_u32x4 c =
        sr_counter(row, sr_drop_group(col), l->uid[s], d.purpose, d.layer, head, l->epoch[s]);
    uint32_t byte = sr_drop_byte(sr_philox(c, l->seed, SR_ROUNDS_DROPOUT), col);
    return byte < d.keep ? 256.0 / d.keep : 0;
}

/* ---- functions ------------------------------------------------------------------------------- */

static double units(float got, double want) { /* in units in the last place of want */
    int e;
    frexp(want, &e);
    double ulp = ldexp(1, (e < -125 ? -125 : e) - 24);
    return fabs(got - want) / ulp;
}

static void check_function(sr_unary op, double (*f)(double), double low, double high, double most) {
    enum { N = 20011 };
    sr_tensor *x = make(SR_F32, N, 0), *y = make(SR_F32, N, 0);
    for (int i = 0; i < N; i++) data(x)[i] = (float)(low + (high - low) * i / (N - 1));
    CHECK_OK(sr_cpu_unary(y, x, op));
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double u = units(data(y)[i], f(data(x)[i]));
        if (u > worst) worst = u;
    }
    CHECK(worst <= most);
    if (worst > most) printf("  op %d: %.2f units in the last place\n", op, worst);
    float ends[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        data(x)[0] = ends[i];
        CHECK_OK(sr_cpu_unary(y, x, op));
        double want = f(ends[i]);
        CHECK(want != want ? data(y)[0] != data(y)[0] : data(y)[0] == (float)want);
    }
    free_tensors();
}

static double gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}
static double gelu_derivative(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

/* GELU and its derivative within 2e-7 of the larger of 1 and |x|. */
static void test_gelu(void) {
    enum { N = 20011 };
    sr_tensor *x = make(SR_F32, N, 0), *y = make(SR_F32, N, 0), *ones = make(SR_F32, N, 0);
    for (int i = 0; i < N; i++) data(x)[i] = (float)(-15 + 30.0 * i / (N - 1)), data(ones)[i] = 1;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 0)
            CHECK_OK(sr_cpu_unary(y, x, SR_GELU));
        else
            CHECK_OK(sr_cpu_unary_backward(y, ones, x, x, SR_GELU));
        double worst = 0;
        for (int i = 0; i < N; i++) {
            double at = data(x)[i], want = pass == 0 ? gelu(at) : gelu_derivative(at);
            worst = fmax(worst, fabs(data(y)[i] - want) / fmax(1, fabs(at)));
        }
        CHECK(worst < 2e-7);
    }
    free_tensors();
}

static void test_functions(void) {
    test_gelu();
    check_function(SR_EXP, exp, -87, 88.5, 1.6);
    check_function(SR_TANH, tanh, -12, 12, 3);
    check_function(SR_TANH, tanh, -0.7, 0.7, 3);
    check_function(SR_ERF, erf, -5, 5, 3);
    check_function(SR_ERF, erf, -1, 1, 3);
}

/* ---- products -------------------------------------------------------------------------------- */

static void check_matmul(int64_t m, int64_t n, int64_t k, bool ta, bool tb, double beta) {
    sr_tensor *a = filled(1, ta ? k : m, ta ? m : k, 1), *b = filled(2, tb ? n : k, tb ? k : n, 1);
    sr_tensor *y = filled(3, m, n, 1);
    double *want = calloc((size_t)(m * n), sizeof *want);
    if (ta) a->shape[0] = m, a->shape[1] = k, a->stride[0] = 1, a->stride[1] = m;
    if (tb) b->shape[0] = k, b->shape[1] = n, b->stride[0] = 1, b->stride[1] = k;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;
            for (int64_t x = 0; x < k; x++)
                s += (double)data(a)[i * a->stride[0] + x * a->stride[1]] *
                     data(b)[x * b->stride[0] + j * b->stride[1]];
            want[i * n + j] = 1.5 * s + beta * data(y)[i * n + j];
        }
    CHECK_OK(sr_cpu_matmul(y, a, b, 1.5, beta));
    CHECK(distance(data(y), want, m * n) < 1e-6);
    free(want);
    free_tensors();
}

static void test_matmul(void) {
    int64_t shapes[][3] = {{1, 1, 1},   {3, 5, 7},    {8, 48, 16},    {17, 49, 300},
                           {64, 64, 1}, {130, 33, 5}, {257, 400, 259}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < 4; t++)
            check_matmul(shapes[s][0], shapes[s][1], shapes[s][2], t & 1, t & 2, t == 3);
}

static void test_linear(void) {
    enum { T = 70, H = 37, F = 53 };
    sr_tensor *x = filled(1, T, H, 1), *w = filled(2, F, H, 0.5f), *b = filled(3, F, 0, 1);
    sr_tensor *y = make(SR_F32, T, F), *pre = make(SR_F32, T, F), *dy = filled(4, T, F, 1);
    sr_tensor *dx = make(SR_F32, T, H), *dw = zeros(F, H), *db = zeros(F, 0);
    static double wy[T * F], wp[T * F], wdx[T * H], wdw[F * H], wdb[F], dpre[T * F];
    memset(wdx, 0, sizeof wdx), memset(wdw, 0, sizeof wdw), memset(wdb, 0, sizeof wdb);
    for (int t = 0; t < T; t++)
        for (int f = 0; f < F; f++) {
            double s = data(b)[f];
            for (int h = 0; h < H; h++) s += (double)data(x)[t * H + h] * data(w)[f * H + h];
            wp[t * F + f] = s;
            wy[t * F + f] = gelu(s);
            dpre[t * F + f] = gelu_derivative(s) * data(dy)[t * F + f];
            wdb[f] += dpre[t * F + f];
            for (int h = 0; h < H; h++) {
                wdx[t * H + h] += dpre[t * F + f] * data(w)[f * H + h];
                wdw[f * H + h] += dpre[t * F + f] * data(x)[t * H + h];
            }
        }
    CHECK_OK(sr_cpu_linear(y, pre, x, w, b, SR_ACT_GELU));
    CHECK(distance(data(y), wy, T * F) < 1e-6);
    CHECK(distance(data(pre), wp, T * F) < 1e-6);
    CHECK_OK(sr_cpu_linear_backward(dx, dw, db, dy, x, w, pre, y, SR_ACT_GELU, false, false));
    CHECK(distance(data(dx), wdx, T * H) < 1e-6);
    CHECK(distance(data(dw), wdw, F * H) < 1e-6);
    CHECK(distance(data(db), wdb, F) < 1e-6);
    free_tensors();
}

/* ---- attention ------------------------------------------------------------------------------- */

/* One sequence and head in double; grads may be NULL. */
static void attention_truth(const fixed *f, int s, int head, int heads, int d, const float *qkv,
                            const float *dout, double *out, double *grads, sr_dropout drop) {
    const sr_layout *l = &f->layout;
    int n = f->len[s], h = heads * d;
    const float *base = qkv + (int64_t)f->start[s] * 3 * h + head * d;
    double scale = 1 / sqrt(d), *p = calloc((size_t)n, sizeof *p),
           *z = calloc((size_t)n, sizeof *z);
    for (int i = 0; i < n; i++) {
        double most = -1e300, sum = 0, delta = 0;
        for (int j = 0; j < n; j++) {
            p[j] = 0;
            for (int c = 0; c < d; c++)
                p[j] += (double)base[i * 3 * h + c] * base[j * 3 * h + h + c] * scale;
            most = fmax(most, p[j]);
        }
        for (int j = 0; j < n; j++) sum += p[j] = exp(p[j] - most);
        double *o = out + (int64_t)(f->start[s] + i) * h + head * d;
        for (int j = 0; j < n; j++) {
            p[j] /= sum;
            z[j] = mask(l, s, drop, (uint32_t)i, (uint32_t)j, (uint32_t)head);
            for (int c = 0; c < d; c++) o[c] += p[j] * z[j] * base[j * 3 * h + 2 * h + c];
        }
        if (grads == NULL) continue;
        const float *go = dout + (int64_t)(f->start[s] + i) * h + head * d;
        double *g = grads + (int64_t)f->start[s] * 3 * h + head * d;
        for (int c = 0; c < d; c++) delta += go[c] * o[c];
        for (int j = 0; j < n; j++) {
            double dp = 0;
            for (int c = 0; c < d; c++) dp += (double)go[c] * base[j * 3 * h + 2 * h + c] * z[j];
            double ds = p[j] * (dp - delta) * scale;
            for (int c = 0; c < d; c++) {
                g[i * 3 * h + c] += ds * base[j * 3 * h + h + c];
                g[j * 3 * h + h + c] += ds * base[i * 3 * h + c];
                g[j * 3 * h + 2 * h + c] += p[j] * z[j] * go[c];
            }
        }
    }
    free(p), free(z);
}

static void check_attention(int d, uint32_t keep) {
    enum { A = 2, T = 384 };
    static const int32_t len[] = {1, 130, 48, 17, 65, 50};
    fixed f;
    lay(&f, 6, len, 3, T);
    int h = A * d;
    sr_dropout drop = {keep, SR_PURPOSE_DROP_ATTENTION, 5};
    sr_attention_opts opts = {
        .heads = A, .kv_heads = A, .window = -1, .scale = 1 / sqrt(d), .drop = drop};
    sr_tensor *qkv = filled(1, T, 3 * h, 2), *out = make(SR_F32, T, h), *lse = make(SR_F32, A, T);
    sr_tensor *dout = filled(2, T, h, 1), *dqkv = make(SR_F32, T, 3 * h);
    double *want = calloc((size_t)T * (size_t)h, sizeof *want);
    double *grads = calloc((size_t)T * 3 * (size_t)h, sizeof *grads);
    for (int r = 0; r < T; r++) /* the content of slack is unspecified */
        for (int c = 0; f.owner[r] < 0 && c < 3 * h; c++) data(qkv)[r * 3 * h + c] = NAN;
    for (int s = 0; s < 6; s++)
        for (int a = 0; a < A; a++)
            attention_truth(&f, s, a, A, d, data(qkv), data(dout), want, grads, drop);
    CHECK_OK(sr_cpu_attention(out, lse, qkv, NULL, &f.layout, opts));
    CHECK(distance(data(out), want, T * h) < 2e-6);
    CHECK_OK(sr_cpu_attention_backward(dqkv, NULL, dout, qkv, out, lse, NULL, &f.layout, opts));
    CHECK(distance(data(dqkv), grads, T * 3 * h) < 4e-6);
    free(want), free(grads);
    free_tensors();
}

static void test_attention(void) {
    check_attention(64, 256);
    check_attention(64, 230);
    check_attention(20, 128);
}

/* ---- norm and embedding ---------------------------------------------------------------------- */

static void check_norm(int h, uint32_t keep) {
    enum { T = 200 };
    static const int32_t len[] = {90, 33, 60};
    fixed f;
    lay(&f, 3, len, 2, T);
    sr_dropout drop = {keep, SR_PURPOSE_DROP_FEED, 2};
    sr_tensor *x = filled(1, T, h, 1), *res = filled(2, T, h, 3), *g = filled(3, h, 0, 1),
              *b = filled(4, h, 0, 1), *dy = filled(5, T, h, 1);
    sr_tensor *y = make(SR_F32, T, h), *sum = make(SR_F32, T, h), *mean = make(SR_F32, T, 0),
              *rstd = make(SR_F32, T, 0), *dx = make(SR_F32, T, h), *dres = make(SR_F32, T, h),
              *dg = zeros(h, 0), *db = zeros(h, 0);
    size_t size = (size_t)T * (size_t)h;
    double *wy = calloc(size, 8), *wdx = calloc(size, 8), *wdr = calloc(size, 8);
    double *wdg = calloc((size_t)h, 8), *wdb = calloc((size_t)h, 8), *hat = calloc((size_t)h, 8);
    for (int r = 0; r < T; r++) {
        double m = 0, v = 0, mg = 0, mgh = 0;
        int s = f.owner[r];
        for (int c = 0; c < h; c++) {
            double z =
                s < 0 ? 1 : mask(&f.layout, s, drop, (uint32_t)f.position[r], (uint32_t)c, 0);
            hat[c] = data(x)[r * h + c] * z + data(res)[r * h + c];
            m += hat[c] / h;
        }
        for (int c = 0; c < h; c++) v += (hat[c] - m) * (hat[c] - m) / h;
        for (int c = 0; c < h; c++) {
            hat[c] = (hat[c] - m) / sqrt(v + 1e-5);
            wy[r * h + c] = hat[c] * data(g)[c] + data(b)[c];
            double gr = (double)data(dy)[r * h + c] * data(g)[c];
            mg += gr / h, mgh += gr * hat[c] / h;
        }
        for (int c = 0; s >= 0 && c < h; c++) {
            double d =
                ((double)data(dy)[r * h + c] * data(g)[c] - mg - hat[c] * mgh) / sqrt(v + 1e-5);
            wdr[r * h + c] = d;
            wdx[r * h + c] = d * mask(&f.layout, s, drop, (uint32_t)f.position[r], (uint32_t)c, 0);
            wdg[c] += data(dy)[r * h + c] * hat[c];
            wdb[c] += data(dy)[r * h + c];
        }
    }
    CHECK_OK(sr_cpu_residual_norm(y, sum, mean, rstd, x, res, g, b, &f.layout, 1e-5, drop));
    CHECK(distance(data(y), wy, T * h) < 2e-6);
    CHECK_OK(sr_cpu_residual_norm_backward(dx, dres, dg, db, NULL, dy, NULL, sum, g, mean, rstd,
                                           &f.layout, drop));
    CHECK(distance(data(dx), wdx, T * h) < 2e-6);
    CHECK(distance(data(dres), wdr, T * h) < 2e-6);
    CHECK(distance(data(dg), wdg, h) < 2e-6);
    CHECK(distance(data(db), wdb, h) < 2e-6);
    free(wy), free(wdx), free(wdr), free(wdg), free(wdb), free(hat);
    free_tensors();
}

static void test_norm(void) {
    check_norm(64, 256);
    check_norm(100, 200);
    check_norm(770, 230);
}

/* ---- the same bits --------------------------------------------------------------------------- */

/* Runs the ops of a small encoder; returns a hash of all their outputs. */
static uint64_t hash_of(sr_tensor *t, uint64_t hash) {
    const uint8_t *p = t->storage->data;
    for (size_t i = 0; i < t->storage->bytes; i++) hash = (hash ^ p[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t run_everything(void) {
    enum { T = 384, A = 3, D = 32, H = A * D, V = 1000, M = 90 };
    static const int32_t len[] = {100, 130, 48, 17, 65};
    fixed f;
    lay(&f, 5, len, 0, T);
    sr_dropout drop = {230, SR_PURPOSE_DROP_ATTENTION, 1};
    sr_attention_opts opts = {.heads = A, .kv_heads = A, .window = -1, .scale = 0.2, .drop = drop};
    sr_tensor *ids = make(SR_I32, T, 0), *types = make(SR_I32, T, 0), *labels = make(SR_I32, M, 0);
    for (int i = 0; i < T; i++)
        SR_DATA(int32_t, ids)[i] = i * i % 37, SR_DATA(int32_t, types)[i] = i % 2;
    for (int i = 0; i < M; i++) SR_DATA(int32_t, labels)[i] = i * 7;
    sr_tensor *word = filled(1, V, H, 1), *pos = filled(2, 512, H, 1), *type = filled(3, 2, H, 1);
    sr_tensor *g = filled(4, H, 0, 1), *b = filled(5, H, 0, 1), *w = filled(6, 3 * H, H, 0.2f);
    sr_tensor *y = make(SR_F32, T, H), *sum = make(SR_F32, T, H), *mean = make(SR_F32, T, 0),
              *rstd = make(SR_F32, T, 0), *qkv = make(SR_F32, T, 3 * H), *out = make(SR_F32, T, H),
              *lse = make(SR_F32, A, T), *dout = make(SR_F32, T, H), *dqkv = make(SR_F32, T, 3 * H),
              *dy = make(SR_F32, T, H), *dw = zeros(3 * H, H), *db = zeros(3 * H, 0),
              *dword = zeros(V, H), *dpos = zeros(512, H), *dtype = zeros(2, H), *dg = zeros(H, 0),
              *dbeta = zeros(H, 0), *total = make(SR_F32, 1, 0), *nll = make(SR_F32, M, 0),
              *correct = make(SR_F32, M, 0), *dlogits = make(SR_F32, M, V),
              *weights = filled(8, M, 0, 1), *bias = filled(9, V, 0, 1), *one = zeros(1, 0),
              *x = filled(10, M, H, 1), *dx = make(SR_F32, M, H), *result = zeros(4, 0),
              *m = zeros(V, H), *v = zeros(V, H);
    data(one)[0] = 0.5f;
    CHECK_OK(sr_cpu_embed(y, sum, mean, rstd, ids, types, NULL, word, pos, type, g, b, &f.layout,
                          1e-12, drop));
    CHECK_OK(sr_cpu_linear(qkv, NULL, y, w, NULL, SR_ACT_NONE));
    CHECK_OK(sr_cpu_attention(out, lse, qkv, NULL, &f.layout, opts));
    CHECK_OK(sr_cpu_copy(dout, out));
    CHECK_OK(sr_cpu_attention_backward(dqkv, NULL, dout, qkv, out, lse, NULL, &f.layout, opts));
    CHECK_OK(sr_cpu_linear_backward(dy, dw, db, dqkv, y, w, NULL, qkv, SR_ACT_NONE, false, false));
    CHECK_OK(sr_cpu_embed_backward(dword, dpos, dtype, dg, dbeta, dy, ids, types, NULL, sum, g,
                                   mean, rstd, &f.layout, drop));
    CHECK_OK(sr_cpu_mlm_loss(total, nll, correct, dlogits, x, word, bias, labels, weights));
    CHECK_OK(sr_cpu_mlm_loss_backward(dx, dword, NULL, one, dlogits, x, word));
    sr_segment segments[] = {{.size = 300 * H, .rate = 1, .decay = 0.01, .trust = true},
                             {.offset = 300 * H, .size = 300 * H, .rate = 2}};
    sr_chunk chunks[2] = {{0, 300 * H, 0}, {300 * H, 300 * H, 1}};
    sr_tensor *squares = make(SR_F64, 2, 0), *norms = make(SR_F64, 2, 2);
    CHECK_OK(sr_cpu_grad_squares(squares, dword, chunks, 0, 2));
    CHECK_OK(sr_cpu_grad_norm(result, squares, 2, NULL));
    sr_step u = {.method = SR_LAMB,
                 .value = word,
                 .grad = dword,
                 .m = m,
                 .v = v,
                 .segments = segments,
                 .count = 2,
                 .chunks = chunks,
                 .chunk_count = 2,
                 .last = 2,
                 .norms = norms,
                 .rate = 0.01,
                 .beta1 = 0.9,
                 .beta2 = 0.99,
                 .eps = 1e-6,
                 .clip = 1,
                 .result = result};
    CHECK_OK(sr_cpu_moments(&u));
    CHECK_OK(sr_cpu_step(&u));
    CHECK(data(result)[2] == 1.0f);
    sr_tensor *made[] = {y,     out, lse,     dqkv, dy,     dw,   db, dpos, dtype, dg,
                         dbeta, nll, dlogits, dx,   result, word, m,  v,    total};
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) hash = hash_of(made[i], hash);
    free_tensors();
    return hash;
}

static void test_threads(const char *isa) {
    uint64_t first = 0;
    const int threads[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        open_device(isa, threads[i]);
        uint64_t hash = run_everything();
        if (i == 0) first = hash;
        CHECK(hash == first);
        close_device();
    }
}

/* The threads of an open device can be replaced by a larger one. */
static void test_larger_pool(const char *isa) {
    open_device(isa, 1);
    uint64_t first = run_everything();
    sr_threads_free(device.threads);
    CHECK_OK(sr_threads_new(&device.threads, 4));
    CHECK(run_everything() == first);
    close_device();
}

/* The results of a sequence of N do not depend on its position or its neighbours, bit for bit. */
static void test_neighbours(int32_t N) {
    enum { A = 2, D = 64, H = A * D, T = 256 };
    const int32_t alone[] = {N}, packed[] = {61, N, 90};
    fixed one, many;
    lay(&one, 1, alone, 0, 128);
    lay(&many, 3, packed, 0, T);
    many.uid[1] = one.uid[0];
    sr_dropout drop = {230, SR_PURPOSE_DROP_ATTENTION, 1};
    sr_attention_opts opts = {
        .heads = A, .kv_heads = A, .window = -1, .scale = 0.125, .drop = drop};
    sr_tensor *w = filled(9, 3 * H, H, 0.3f), *x1 = filled(1, 128, H, 1), *x2 = filled(2, T, H, 1);
    for (int r = 0; r < T; r++)
        for (int c = 0; many.owner[r] != 1 && c < H; c++) data(x2)[r * H + c] = NAN;
    memcpy(data(x2) + 61 * H, data(x1), (size_t)(N * H) * sizeof(float));
    sr_tensor *q1 = make(SR_F32, 128, 3 * H), *q2 = make(SR_F32, T, 3 * H),
              *o1 = make(SR_F32, 128, H), *o2 = make(SR_F32, T, H), *l1 = make(SR_F32, A, 128),
              *l2 = make(SR_F32, A, T), *d1 = make(SR_F32, 128, 3 * H),
              *d2 = make(SR_F32, T, 3 * H);
    CHECK_OK(sr_cpu_linear(q1, NULL, x1, w, NULL, SR_ACT_NONE));
    CHECK_OK(sr_cpu_linear(q2, NULL, x2, w, NULL, SR_ACT_NONE));
    CHECK(memcmp(data(q1), data(q2) + 61 * 3 * H, (size_t)(N * 3 * H) * sizeof(float)) == 0);
    CHECK_OK(sr_cpu_attention(o1, l1, q1, NULL, &one.layout, opts));
    CHECK_OK(sr_cpu_attention(o2, l2, q2, NULL, &many.layout, opts));
    CHECK(memcmp(data(o1), data(o2) + 61 * H, (size_t)(N * H) * sizeof(float)) == 0);
    CHECK_OK(sr_cpu_attention_backward(d1, NULL, o1, q1, o1, l1, NULL, &one.layout, opts));
    CHECK_OK(sr_cpu_attention_backward(d2, NULL, o2, q2, o2, l2, NULL, &many.layout, opts));
    CHECK(memcmp(data(d1), data(d2) + 61 * 3 * H, (size_t)(N * 3 * H) * sizeof(float)) == 0);
    free_tensors();
}

/* If any allocation of an op fails, it returns SR_ENOMEM, and works again afterwards. */
static void test_memory(void) {
    open_device("avx512", 2);
    sr_tensor *x = filled(1, 600, 70, 1), *w = filled(2, 50, 70, 1), *y = make(SR_F32, 600, 50);
    sr_status st; /* room stays with the device */
    STARVE(st, false, sr_cpu_linear(y, NULL, x, w, NULL, SR_ACT_NONE));
    free_tensors();
    close_device();
}

/* The probe of the peak counts what it multiplied. */
static void test_burst(void) {
    double f32 = 0, more = 0, low = -1;
    CHECK_OK(sr_cpu_burst(&device, 100, false, &f32));
    CHECK_OK(sr_cpu_burst(&device, 200, false, &more));
    CHECK_OK(sr_cpu_burst(&device, 100, true, &low));
    CHECK(f32 >= 100 * 12 * 2 * 4 && more == 2 * f32 && low >= 0);
}

/* A misspelled instruction set is an error, not the highest one. */
static void test_unknown_isa(void) {
    sr_device *d;
    setenv("SEQRUN_ISA", "avx", 1);
    CHECK_FAILS(sr_device_open(&d, &sr_backend_cpu, 0, NULL), SR_EDEVICE, "'avx'; use plain");
    setenv("SEQRUN_ISA", "", 1);
    CHECK_OK(sr_device_open(&d, &sr_backend_cpu, 0, NULL));
    sr_device_close(d);
}

/* A stop ends long ops; in-place writes complete or do nothing. */
static void test_stop(void) {
    enum { N = 2 * SR_CHUNK };
    open_device("avx512", 2);
    sr_tensor *a = filled(1, 64, 64, 1), *b = filled(2, 64, 64, 1), *y = make(SR_F32, 64, 64);
    sr_tensor *w = zeros(N, 0), *g = filled(3, N, 0, 1), *m = zeros(N, 0), *v = zeros(N, 0);
    sr_tensor *result = zeros(4, 0);
    data(result)[1] = 1.0f;
    sr_segment segment = {.size = N, .rate = 1, .trust = true};
    sr_chunk chunks[2] = {{0, SR_CHUNK, 0}, {SR_CHUNK, SR_CHUNK, 0}};
    sr_tensor *norms = make(SR_F64, 2, 2);
    sr_step u = {
        .method = SR_LAMB, .value = w, .grad = g, .m = m, .v = v, .norms = norms, .result = result};
    u.segments = &segment, u.count = 1, u.chunks = chunks, u.chunk_count = u.last = 2,
    u.rate = 0.01;
    sr_stop_request();
    CHECK_FAILS(sr_cpu_matmul(y, a, b, 1, 0), SR_ESTOP, "stopped");
    CHECK_OK(sr_cpu_moments(&u));
    CHECK_OK(sr_cpu_step(&u));
    CHECK_OK(sr_cpu_axpby(m, g, 1, 1));
    sr_stop_clear();
    CHECK(data(result)[2] == 1.0f && data(w)[0] != 0 && data(w)[N - 1] != 0);
    free_tensors();
    close_device();
}

int main(void) {
    const char *names[] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};
    int64_t live = sr_mem_live();
    for (int i = 0; i < 5; i++) {
        setenv("SEQRUN_ISA", names[i], 1);
        if (strcmp(sr_cpu_simd()->name, names[i]) != 0) {
            printf("cpu: this processor lacks %s\n", names[i]);
            continue;
        }
        open_device(names[i], 2);
        test_functions();
        test_matmul();
        test_linear();
        test_attention();
        test_norm();
        for (int k = 0; k < 3; k++) test_neighbours((int[]){75, 40, 3}[k]);
        test_burst();
        close_device();
        test_threads(names[i]);
        test_larger_pool(names[i]);
    }
    test_memory();
    test_stop();
    test_unknown_isa();
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
