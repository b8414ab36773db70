/* bench.c - the time of every op of a BERT step on one device, by direct calls of its backend.
 *
 *     gpu-bench DEVICE LABEL [only=OP] < WORK > TSV
 *
 * WORK is what `roofline.lua dump=FILE` writes, a line a step: model, hidden, layers, heads, inner,
 * vocabulary, rows, masked, then the lengths.  A line of the TSV has LABEL, model, tokens, op, us:
 * the time of all calls of the op in a step, named as in recipes/bench/traffic.lua.  The lines of
 * model `rate` are the rates of a copy and of a large product instead: GB/s and TFLOP/s; those of
 * model `attention` are single calls on sequences of one length, 16 heads of 64.  only=OP runs one
 * op of the encoder alone, or one of its linear layers: for a profiler.
 *
 * Inputs are random.  The device is warmed up by products for half a second before the first op; a
 * time is the least of three rounds of at least a tenth of a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/tensor/ops.h"
#include "core/tensor/plugin.h"

enum { MOST_SEQUENCES = 4096, MOST_TENSORS = 96, ROUNDS = 3 };
#define ROUND_SECONDS 0.1
#define WARM_SECONDS 0.5 /* clocks rise, and stay there */

typedef struct work {
    char model[32];
    long long H, L, A, F, V, T, M;
    int32_t sequences, len[MOST_SEQUENCES];
} work;

/* All tensors of a step that some op reads or writes. */
typedef struct bench {
    const char *label, *only; /* an op; NULL: all */
    const sr_backend *be;
    sr_device *device;
    bool brief; /* one round: the device is slow */
    work w;
    sr_layout *layout;
    sr_dropout drop;
    sr_tensor *x, *y, *z, *sum, *qkv, *dqkv, *lse, *mean, *rstd, *wide, *wide2, *wide3;
    sr_tensor *w_qkv, *w_out, *w_in, *w_down, *b, *dw, *db, *gamma, *beta, *dgamma, *dbeta;
    sr_tensor *word, *dword, *position, *dposition, *type, *dtype, *ids, *types, *logits, *hx, *hy;
    sr_tensor *rows, *last_rows, *labels, *weights, *nll, *correct, *total, *dtotal, *bias, *dbias,
        *real;
    sr_tensor *value, *grad, *m, *v, *bf16_copy, *squares, *norms, *result;
    sr_chunk *chunks;
    sr_segment segment;
    sr_step step;
} bench;

static void need(sr_status st) {
    if (st == SR_OK) return;
    fprintf(stderr, "gpu-bench: %s\n", sr_message());
    exit(1);
}

static sr_tensor *all[MOST_TENSORS];
static int made;

static sr_tensor *make(bench *b, sr_dtype dtype, int64_t rows, int64_t cols) {
    static uint32_t uid;
    sr_tensor *t;
    int64_t shape[] = {rows, cols};
    need(sr_tensor_new(&t, b->device, dtype, cols > 0 ? 2 : 1, shape));
    if (sr_dtype_is_real(dtype) && dtype != SR_F64)
        need(b->be->random(t, SR_NORMAL, 1, SR_PURPOSE_TENSOR, ++uid, 0, 0.0, 0.05));
    else
        need(b->be->fill(t, 0.0));
    return all[made++] = t;
}

static void release_all(bench *b) {
    while (made > 0) sr_tensor_release(all[--made]);
    sr_device_trim(b->device);
}

/* Integers from 0, by a step that visits most rows of a table. */
static sr_tensor *numbers(bench *b, int64_t count, int64_t step, int64_t below) {
    sr_tensor *t = make(b, SR_I32, count, 0);
    int32_t *host;
    need(sr_new(&host, count));
    for (int64_t i = 0; i < count; i++) host[i] = (int32_t)(i * step % below);
    need(sr_tensor_write(t, host, SR_I32));
    sr_free(host);
    return t;
}

/* ---- timing ---------------------------------------------------------------------------------- */

typedef sr_status run_fn(bench *b);

static double seconds_of(bench *b, run_fn *run, int times) {
    double begin = sr_time_monotonic();
    for (int i = 0; i < times; i++) need(run(b));
    need(sr_device_wait(b->device));
    return (sr_time_monotonic() - begin) / times;
}

static double time_of(bench *b, run_fn *run) {
    double once = seconds_of(b, run, 1), least;
    if (b->brief) return once;
    once = least = seconds_of(b, run, 1);
    int times = once > ROUND_SECONDS ? 1 : (int)(ROUND_SECONDS / (once + 1e-7)) + 1;
    if (times > 20000) times = 20000;
    for (int i = 0; i < ROUNDS; i++) {
        double now = seconds_of(b, run, times);
        if (now < least) least = now;
    }
    return least;
}

static void print_op(const bench *b, const char *op, int64_t calls, double seconds) {
    printf("%s\t%s\t%lld\t%s\t%.2f\n", b->label, b->w.model, b->w.T, op,
           (double)calls * (seconds > 0 ? seconds : 0) * 1e6);
    fflush(stdout);
}

static bool is_left_out(const bench *b, const char *op) {
    return b->only != NULL && strcmp(b->only, op) != 0;
}

/* Prints the time of `calls` calls. */
static double put(bench *b, const char *op, int64_t calls, run_fn *run) {
    if (is_left_out(b, op)) return 0;
    double seconds = time_of(b, run);
    print_op(b, op, calls, seconds);
    return seconds;
}

/* ---- linear layers --------------------------------------------------------------------------- */

/* The layer that the functions below run. */
static struct {
    sr_tensor *x, *w, *b, *y, *pre, *dx, *dw, *db;
    bool do_x, do_w, do_b, add;
    sr_act act;
} layer;

static sr_status forward(bench *b) {
    return b->be->linear(layer.y, layer.act != SR_ACT_NONE ? layer.pre : NULL, layer.x, layer.w,
                         layer.b, layer.act);
}

static sr_status backward(bench *b) {
    return b->be->linear_backward(layer.do_x ? layer.dx : NULL, layer.do_w ? layer.dw : NULL,
                                  layer.do_b ? layer.db : NULL, layer.y, layer.x, layer.w,
                                  layer.act != SR_ACT_NONE ? layer.pre : NULL, NULL, layer.act,
                                  layer.add, true);
}

static double part(bench *b, bool x, bool w, bool db) {
    layer.do_x = x, layer.do_w = w, layer.do_b = db;
    return time_of(b, backward);
}

/* A view of the first elements of t with another shape. */
static sr_tensor shaped(const sr_tensor *t, int64_t rows, int64_t cols) {
    sr_tensor view = *t;
    view.ndim = cols > 0 ? 2 : 1;
    view.shape[0] = rows, view.shape[1] = cols;
    view.stride[0] = cols > 0 ? cols : 1, view.stride[1] = 1;
    return view;
}

/* Rows that targets read, which are all that the last layer has after its attention. */
static int64_t last_rows(const work *w) {
    int64_t rows = (w->M + w->sequences + 127) / 128 * 128;
    return rows < w->T ? rows : w->T;
}

/* Seconds of the parts of a layer on the first `rows` rows. */
typedef struct linear_times {
    double product, dx, dw, gelu, gelu_back;
} linear_times;

static linear_times times_on(bench *b, int64_t rows, sr_tensor *const given[4]) {
    sr_tensor part_of[4], **to[] = {&layer.x, &layer.y, &layer.pre, &layer.dx};
    for (int i = 0; i < 4; i++) {
        if (given[i] != NULL) part_of[i] = shaped(given[i], rows, given[i]->shape[1]);
        *to[i] = given[i] != NULL ? &part_of[i] : NULL;
    }
    linear_times t = {0};
    layer.act = SR_ACT_NONE;
    t.product = time_of(b, forward);
    t.dx = part(b, true, false, false);
    t.dw = part(b, false, true, false);
    if (layer.pre == NULL) return t;
    layer.act = SR_ACT_GELU;
    t.gelu = time_of(b, forward) - t.product;
    t.gelu_back = part(b, true, true, true) - t.dx - t.dw;
    return t;
}

static void print_part(bench *b, const char *name, const char *what, double all, double last) {
    char op[96];
    snprintf(op, sizeof op, "%s %s", name, what);
    print_op(b, op, 1, all + last);
}

/* `first` of the two layers of a branch: its x is the residual, too, whose gradient dx is added to.
 * Bias gradients are summed by the op above, but for that of a GELU. */
static void time_linear(bench *b, const char *name, bool first, bool has_last, sr_tensor *w,
                        sr_tensor *const given[4]) {
    if (is_left_out(b, name)) return;
    sr_tensor dw = shaped(b->dw, w->shape[0], w->shape[1]), bias = shaped(b->b, w->shape[0], 0),
              db = shaped(b->db, w->shape[0], 0);
    layer.w = w, layer.b = &bias, layer.dw = &dw, layer.db = &db, layer.add = first;
    double n = (double)b->w.L - (has_last ? 1 : 0);
    linear_times t = times_on(b, b->w.T, given), last = {0};
    if (has_last) last = times_on(b, last_rows(&b->w), given);
    print_part(b, name, "product", n * t.product, last.product);
    print_part(b, name, "backward: dx", n * t.dx, last.dx);
    print_part(b, name, "backward: dw", n * t.dw, last.dw);
    if (given[2] == NULL) return;
    print_part(b, name, "gelu", n * t.gelu, last.gelu);
    print_part(b, name, "backward: gelu, db", n * t.gelu_back, last.gelu_back);
}

/* ---- the encoder ----------------------------------------------------------------------------- */

static sr_attention_opts attention_opts(const bench *b) {
    return (sr_attention_opts){.heads = (int)b->w.A,
                               .kv_heads = (int)b->w.A,
                               .window = -1,
                               .scale = 1.0 / sqrt((double)b->w.H / (double)b->w.A),
                               .drop = b->drop};
}

static sr_status attention(bench *b) {
    return b->be->attention(b->z, b->lse, b->qkv, NULL, b->layout, attention_opts(b));
}

static sr_status attention_backward(bench *b) {
    sr_tensor dbias = b->db != NULL ? shaped(b->db, 3 * b->w.H, 0) : (sr_tensor){0};
    return b->be->attention_backward(b->dqkv, b->db != NULL ? &dbias : NULL, b->y, b->qkv, b->z,
                                     b->lse, NULL, b->layout, attention_opts(b));
}

static sr_status residual_norm(bench *b) {
    return b->be->residual_norm(b->y, b->sum, b->mean, b->rstd, b->x, b->z, b->gamma, b->beta,
                                b->layout, 1e-12, b->drop);
}

static sr_status residual_norm_backward(bench *b) {
    sr_tensor dbias = shaped(b->db, b->w.H, 0);
    return b->be->residual_norm_backward(b->x, b->z, b->dgamma, b->dbeta, &dbias, b->y, NULL,
                                         b->sum, b->gamma, b->mean, b->rstd, b->layout, b->drop);
}

/* Two in every layer; those of the last one by their share of the rows. */
static void put_norm(bench *b, const char *op, run_fn *run) {
    if (is_left_out(b, op)) return;
    double last = (double)last_rows(&b->w) / (double)b->w.T;
    print_op(b, op, 2, ((double)(b->w.L - 1) + last) * time_of(b, run));
}

static sr_status add_gradients(bench *b) {
    sr_tensor y = shaped(b->y, last_rows(&b->w), b->w.H), x = shaped(b->x, y.shape[0], b->w.H);
    return b->be->axpby(&y, &x, 1.0, 1.0);
}

static sr_status embed(bench *b) {
    return b->be->embed(b->y, b->sum, b->mean, b->rstd, b->ids, b->types, NULL, b->word,
                        b->position, b->type, b->gamma, b->beta, b->layout, 1e-12, b->drop);
}

static sr_status embed_backward(bench *b) {
    return b->be->embed_backward(b->dword, b->dposition, b->dtype, b->dgamma, b->dbeta, b->y,
                                 b->ids, b->types, NULL, b->sum, b->gamma, b->mean, b->rstd,
                                 b->layout, b->drop);
}

static void time_encoder(bench *b) {
    int64_t L = b->w.L;
    put(b, "embed", 1, embed);
    put(b, "embed backward", 1, embed_backward);
    put(b, "attention", L, attention);
    need(attention(b)); /* what its backward pass reads */
    put(b, "attention backward", L, attention_backward);
    put_norm(b, "residual_norm", residual_norm);
    put_norm(b, "residual_norm backward", residual_norm_backward);
    put(b, "sum of gradients", 1, add_gradients);
    /* x, y, the value before a GELU, dx */
    time_linear(b, "qkv", true, false, b->w_qkv, (sr_tensor *[]){b->x, b->qkv, NULL, b->y});
    time_linear(b, "projection", false, true, b->w_out, (sr_tensor *[]){b->x, b->y, NULL, b->z});
    time_linear(b, "inner", true, true, b->w_in, (sr_tensor *[]){b->x, b->wide, b->wide2, b->y});
    time_linear(b, "outer", false, true, b->w_down, (sr_tensor *[]){b->wide, b->y, NULL, b->wide3});
}

/* ---- heads ----------------------------------------------------------------------------------- */

/* What goes on alone: of all rows those that targets read, of these the masked ones. */
static struct {
    int64_t all, some;
    sr_tensor *rows;
} take;

static sr_status gather(bench *b) {
    sr_tensor x = shaped(b->x, take.all, b->w.H), y = shaped(b->z, take.some, b->w.H);
    return b->be->gather_rows(&y, &x, take.rows);
}

static sr_status scatter(bench *b) {
    sr_tensor x = shaped(b->z, take.some, b->w.H), y = shaped(b->real, take.all, b->w.H);
    return b->be->scatter_rows(&y, &x, take.rows);
}

static sr_status fill_round(bench *b) {
    sr_tensor sum = shaped(b->real, take.all, b->w.H), y = shaped(b->y, take.all, b->w.H);
    SR_TRY(b->be->fill(&sum, 0.0));
    return b->be->copy(&y, &sum);
}

/* Twice before the last layer, and once for each head. */
static void put_rows(bench *b, const char *op, run_fn *run) {
    int64_t last = last_rows(&b->w);
    take.all = b->w.T, take.some = last, take.rows = b->last_rows;
    double before = time_of(b, run);
    take.all = last, take.some = b->w.M, take.rows = b->rows;
    print_op(b, op, 2, before + time_of(b, run));
}

static sr_status decoder(bench *b) {
    return b->be->linear(b->logits, NULL, b->hx, b->word, b->bias, SR_ACT_NONE);
}

static sr_status mlm_loss(bench *b) {
    return b->be->mlm_loss(b->total, b->nll, b->correct, b->logits, b->hx, b->word, b->bias,
                           b->labels, b->weights);
}

static sr_status mlm_dx(bench *b) {
    return b->be->mlm_loss_backward(b->hy, NULL, NULL, b->dtotal, b->logits, b->hx, b->word);
}

static sr_status mlm_dw(bench *b) {
    return b->be->mlm_loss_backward(NULL, b->dword, NULL, b->dtotal, b->logits, b->hx, b->word);
}

static sr_status mlm_db(bench *b) {
    return b->be->mlm_loss_backward(NULL, NULL, b->dbias, b->dtotal, b->logits, b->hx, b->word);
}

static void time_heads(bench *b) {
    put_rows(b, "some rows: gather", gather);
    put_rows(b, "some rows: scatter", scatter);
    put_rows(b, "some rows: fill, round", fill_round);
    double product = put(b, "decoder product", 1, decoder);
    print_op(b, "decoder loss", 1, time_of(b, mlm_loss) - product);
    put(b, "decoder backward: dx", 1, mlm_dx);
    put(b, "decoder backward: dw", 1, mlm_dw);
    put(b, "decoder backward: db", 1, mlm_db);
}

/* ---- the optimizer --------------------------------------------------------------------------- */

static sr_status norm(bench *b) {
    SR_TRY(b->be->grad_squares(b->squares, b->grad, b->chunks, 0, b->step.last));
    return b->be->grad_norm(b->result, b->squares, b->step.last, NULL);
}

static sr_status moments(bench *b) {
    return b->be->moments(&b->step);
}

static sr_status step(bench *b) {
    return b->be->step(&b->step);
}

/* The tables: products write the gradients of other matrices. */
static sr_status zero(bench *b) {
    sr_tensor tables = shaped(b->grad, b->w.V + 514, b->w.H);
    return b->be->fill(&tables, 0.0);
}

/* Parameters of the model, near enough. */
static int64_t parameters(const work *w) {
    return (w->V + 514) * w->H + w->L * (4 * w->H * w->H + 2 * w->H * w->F);
}

static void make_store(bench *b) {
    int64_t P = parameters(&b->w), chunks = (P + SR_CHUNK - 1) / SR_CHUNK;
    b->value = make(b, SR_F32, P, 0);
    b->grad = make(b, SR_F32, P, 0);
    b->m = make(b, SR_F32, P, 0);
    b->v = make(b, SR_F32, P, 0);
    b->bf16_copy = make(b, SR_BF16, P, 0);
    need(b->be->unary(b->v, b->m, SR_SQUARE));
    b->squares = make(b, SR_F64, chunks, 0);
    b->norms = make(b, SR_F64, chunks, 2);
    b->result = make(b, SR_F32, SR_RESULTS, 0);
    need(b->be->fill(b->result, 1.0));
    need(sr_new(&b->chunks, chunks));
    for (int64_t c = 0; c < chunks; c++) {
        int64_t left = P - c * SR_CHUNK;
        b->chunks[c] = (sr_chunk){c * SR_CHUNK, left < SR_CHUNK ? left : SR_CHUNK, 0};
    }
    b->segment = (sr_segment){.size = P, .rate = 1, .decay = 0.01, .trust = true};
    b->step = (sr_step){.value = b->value,
                        .grad = b->grad,
                        .m = b->m,
                        .v = b->v,
                        .bf16_copy = b->bf16_copy,
                        .segments = &b->segment,
                        .count = 1,
                        .chunks = b->chunks,
                        .chunk_count = chunks,
                        .last = chunks,
                        .norms = b->norms,
                        .rate = 1e-6,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .eps = 1e-6,
                        .clip = 1,
                        .result = b->result};
}

static void time_optimizer(bench *b) {
    make_store(b);
    put(b, "gradient norm", 1, norm);
    b->step.method = SR_LAMB;
    put(b, "lamb moments", 1, moments);
    put(b, "lamb step", 1, step);
    b->step.method = SR_ADAMW;
    put(b, "adamw step", 1, step);
    put(b, "zero gradients", 1, zero);
    sr_free(b->chunks);
}

/* ---- a line of work -------------------------------------------------------------------------- */

static void make_tensors(bench *b) {
    const work *w = &b->w;
    int64_t H = w->H, F = w->F, T = w->T, M = w->M, V = w->V, most = F > 3 * H ? F : 3 * H;
    sr_tensor **rows[] = {&b->x, &b->y, &b->z, &b->sum},
              **wide[] = {&b->wide, &b->wide2, &b->wide3};
    for (int i = 0; i < 4; i++) *rows[i] = make(b, SR_BF16, T, H);
    for (int i = 0; i < 3; i++) *wide[i] = make(b, SR_BF16, T, F);
    b->qkv = make(b, SR_BF16, T, 3 * H);
    b->dqkv = make(b, SR_BF16, T, 3 * H);
    b->lse = make(b, SR_F32, w->A, T);
    b->real = make(b, SR_F32, T, H);
    b->mean = make(b, SR_F32, T, 0);
    b->rstd = make(b, SR_F32, T, 0);
    b->w_qkv = make(b, SR_BF16, 3 * H, H);
    b->w_out = make(b, SR_BF16, H, H);
    b->w_in = make(b, SR_BF16, F, H);
    b->w_down = make(b, SR_BF16, H, F);
    b->b = make(b, SR_BF16, most, 0);
    b->db = make(b, SR_F32, most, 0);
    b->dw = make(b, SR_F32, most, H);
    b->gamma = make(b, SR_F32, H, 0);
    b->beta = make(b, SR_F32, H, 0);
    b->dgamma = make(b, SR_F32, H, 0);
    b->dbeta = make(b, SR_F32, H, 0);
    b->word = make(b, SR_BF16, V, H);
    b->dword = make(b, SR_F32, V, H);
    b->position = make(b, SR_BF16, 512, H);
    b->dposition = make(b, SR_F32, 512, H);
    b->type = make(b, SR_BF16, 2, H);
    b->dtype = make(b, SR_F32, 2, H);
    b->logits = make(b, SR_BF16, M, V);
    b->hx = make(b, SR_BF16, M, H);
    b->hy = make(b, SR_BF16, M, H);
    b->weights = make(b, SR_F32, M, 0);
    b->nll = make(b, SR_F32, M, 0);
    b->correct = make(b, SR_F32, M, 0);
    b->bias = make(b, SR_BF16, V, 0);
    b->dbias = make(b, SR_F32, V, 0);
    for (int i = 0; i < 2; i++) {
        sr_tensor **scalar = i == 0 ? &b->total : &b->dtotal;
        need(sr_tensor_scalar(scalar, b->device, SR_F32, i));
        all[made++] = *scalar;
    }
    b->ids = numbers(b, T, 7919, V);
    b->types = numbers(b, T, 1, 2);
    int64_t last = last_rows(w);
    b->rows = numbers(b, M, 1, last);
    b->last_rows = numbers(b, last, T / last > 0 ? T / last : 1, T);
    b->labels = numbers(b, M, 104729, V);
}

/* A layout of the work; sequences follow each other. */
static void make_layout(bench *b) {
    need(sr_layout_new(&b->layout, b->w.sequences, NULL, b->w.len, NULL, NULL, b->w.T, 1));
    b->drop = (sr_dropout){230, SR_PURPOSE_DROP_FEED, 1};
}

static bool read_work(work *w) {
    int n;
    static char line[65536];
    if (fgets(line, sizeof line, stdin) == NULL) return false;
    char *at = line;
    *w = (work){0};
    if (sscanf(at, "%31s %lld %lld %lld %lld %lld %lld %lld%n", w->model, &w->H, &w->L, &w->A,
               &w->F, &w->V, &w->T, &w->M, &n) != 8)
        return false;
    for (at += n; w->sequences < MOST_SEQUENCES; at += n)
        if (sscanf(at, "%d%n", &w->len[w->sequences], &n) == 1)
            w->sequences++;
        else
            break;
    return true;
}

static void run_work(bench *b) {
    make_layout(b);
    make_tensors(b);
    time_encoder(b);
    if (b->only == NULL) time_heads(b), time_optimizer(b);
    sr_layout_release(b->layout);
    release_all(b);
}

/* ---- attention by length --------------------------------------------------------------------- */

/* One call, forward or backward, on as many sequences of `length` tokens as fit. */
static void put_attention(bench *b, int32_t length, bool drops, bool back) {
    char op[64];
    b->drop = (sr_dropout){drops ? 230 : 256, SR_PURPOSE_DROP_ATTENTION, 1};
    snprintf(op, sizeof op, "%s %d%s", back ? "backward" : "forward", length,
             drops ? " dropout" : "");
    print_op(b, op, 1, time_of(b, back ? attention_backward : attention));
}

static void time_lengths(bench *b) {
    const int32_t lengths[] = {64, 128, 256, 512, 2048};
    int64_t T = b->brief ? 128 : 16384, H = b->brief ? 64 : 1024;
    b->w = (work){.model = "attention", .H = H, .A = H / 64, .T = T};
    b->qkv = make(b, SR_BF16, T, 3 * H);
    b->dqkv = make(b, SR_BF16, T, 3 * H);
    b->y = make(b, SR_BF16, T, H);
    b->z = make(b, SR_BF16, T, H);
    b->lse = make(b, SR_F32, b->w.A, T);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && lengths[i] <= T; i++) {
        b->w.sequences = (int32_t)(T / lengths[i]);
        for (int32_t s = 0; s < b->w.sequences; s++) b->w.len[s] = lengths[i];
        make_layout(b);
        for (int k = 0; k < 4; k++) put_attention(b, lengths[i], k % 2 == 1, k / 2 == 1);
        sr_layout_release(b->layout);
    }
    release_all(b);
}

/* ---- rates ----------------------------------------------------------------------------------- */

static sr_status copy(bench *b) {
    return b->be->copy(b->value, b->grad);
}

static sr_status product(bench *b) {
    return b->be->linear(b->z, NULL, b->x, b->y, NULL, SR_ACT_NONE);
}

static void make_squares(bench *b, int64_t side) {
    b->x = make(b, SR_BF16, side, side);
    b->y = make(b, SR_BF16, side, side);
    b->z = make(b, SR_BF16, side, side);
}

/* Products of random matrices, so that the first op does not meet an idle chip's clocks. */
static void warm_up(bench *b) {
    if (b->brief) return;
    make_squares(b, 4096);
    double begin = sr_time_monotonic();
    while (sr_time_monotonic() - begin < WARM_SECONDS) seconds_of(b, product, 10);
    release_all(b);
}

static void time_rates(bench *b) {
    int64_t count = b->brief ? 1 << 12 : 1 << 27, side = b->brief ? 64 : 8192;
    b->value = make(b, SR_F32, count, 0);
    b->grad = make(b, SR_F32, count, 0);
    printf("%s\trate\t0\tcopy, GB/s\t%.1f\n", b->label, 8e-9 * (double)count / time_of(b, copy));
    make_squares(b, side);
    double flops = 2.0 * (double)side * (double)side * (double)side;
    printf("%s\trate\t0\tproduct, TFLOP/s\t%.1f\n", b->label, flops / time_of(b, product) * 1e-12);
    release_all(b);
}

int main(int argc, char **argv) {
    int index;
    if (argc < 3 || argc > 4 || (argc == 4 && strncmp(argv[3], "only=", 5) != 0)) {
        fprintf(stderr, "usage: gpu-bench DEVICE LABEL [only=OP] < WORK > TSV\n");
        return 2;
    }
    bench b = {.label = argv[2], .only = argc == 4 ? argv[3] + 5 : NULL};
    b.brief = strcmp(argv[1], "cuda") != 0;
    need(sr_backend_find(&index, argv[1]));
    b.be = sr_backend_at(index);
    need(sr_device_open(&b.device, b.be, 0, NULL));
    if (b.only == NULL) warm_up(&b), time_rates(&b), time_lengths(&b);
    while (read_work(&b.w)) run_work(&b);
    sr_device_close(b.device);
    return 0;
}
