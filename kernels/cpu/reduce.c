/* reduce.c - sum, max, min, argmax and argmin along any dimensions, and softmax.
 *
 * Traffic   reads x once.  Sums are accumulated in f64, over pieces of fixed length if an output
 *           has many elements; the pieces are added in order.
 */
#include <math.h>

#include "kernels/cpu/cpu.h"

static const char TOO_LARGE[] =
    "sum: the sum %.0f of i32 does not fit i32; sum x:to(\"f32\") instead";

enum { PIECE = 65536, RUN = 512 };

typedef struct fold {
    double value;
    int64_t at;
} fold;

typedef struct job {
    const sr_simd *simd;
    sr_tensor *y;
    const sr_tensor *x;
    sr_reduction op;
    int kept, folded; /* dimensions */
    int64_t kept_shape[SR_MAX_DIMS], kept_x[SR_MAX_DIMS], kept_y[SR_MAX_DIMS];
    int64_t fold_shape[SR_MAX_DIMS], fold_x[SR_MAX_DIMS];
    int64_t outputs, length, pieces, outputs_a_task;
    fold *partial; /* (outputs, pieces) when pieces > 1 */
} job;

static fold nothing(sr_reduction op) {
    if (op == SR_SUM) return (fold){0, 0};
    return (fold){op == SR_MAX || op == SR_ARGMAX ? -INFINITY : INFINITY, -1};
}

/* The first of equal values wins; NaN wins over all. */
static void take(fold *f, double v, int64_t at, sr_reduction op) {
    bool greater = op == SR_MAX || op == SR_ARGMAX;
    if (f->at < 0 || (v != v && f->value == f->value) || (greater ? v > f->value : v < f->value)) {
        f->value = v;
        f->at = at;
    }
}

static void join(fold *f, fold other, sr_reduction op) {
    if (op == SR_SUM)
        f->value += other.value;
    else if (other.at >= 0)
        take(f, other.value, other.at, op);
}

static void fold_run(fold *f, const job *j, int64_t element, int64_t stride, int64_t n,
                     int64_t first) {
    SR_UNSET float room[RUN];
    const float *x = SR_DATA(float, j->x) + element;
    if (j->x->dtype == SR_I32 &&
        j->op != SR_SUM) { /* f32 would round neighbours to the same value */
        const int32_t *from = SR_DATA(int32_t, j->x) + element;
        for (int64_t i = 0; i < n; i++) take(f, from[i * stride], first + i, j->op);
        return;
    }
    if (j->x->dtype == SR_I32) {
        const int32_t *from = SR_DATA(int32_t, j->x) + element;
        for (int64_t i = 0; i < n; i++) f->value += from[i * stride];
        return;
    }
    if (j->x->dtype != SR_F32 || stride != 1) {
        sr_cpu_load(room, j->x, element, stride, n);
        x = room;
    }
    if (j->op == SR_SUM)
        f->value += j->simd->sum(x, n);
    else
        for (int64_t i = 0; i < n; i++) take(f, x[i], first + i, j->op);
}

/* Elements from .. to of the row of one output. */
static fold fold_piece(const job *j, int64_t output, int64_t from, int64_t to) {
    fold f = nothing(j->op);
    int64_t base = sr_place(j->kept, j->kept_shape, j->kept_x, output);
    int64_t inner = j->folded > 0 ? j->fold_shape[j->folded - 1] : 1;
    int64_t stride = j->folded > 0 ? j->fold_x[j->folded - 1] : 0;
    for (int64_t i = from; i < to;) {
        int64_t n = sr_least(sr_least(inner - i % inner, to - i), RUN);
        fold_run(&f, j, base + sr_place(j->folded, j->fold_shape, j->fold_x, i), stride, n, i);
        i += n;
    }
    return f;
}

static sr_status put(const job *j, int64_t output, fold f) {
    int64_t element = sr_place(j->kept, j->kept_shape, j->kept_y, output);
    float value = (float)f.value;
    if (j->op == SR_ARGMAX || j->op == SR_ARGMIN)
        SR_DATA(int32_t, j->y)[element] = (int32_t)f.at;
    else if (j->y->dtype != SR_I32)
        sr_cpu_store(j->y, element, 1, &value, 1);
    else if (f.value >= INT32_MIN && f.value <= INT32_MAX)
        SR_DATA(int32_t, j->y)[element] = (int32_t)f.value;
    else
        return sr_fail(SR_EINVAL, TOO_LARGE, f.value);
    return SR_OK;
}

static sr_status piece_task(void *context, int64_t i, int worker) {
    (void)worker;
    job *j = context;
    int64_t from = i % j->pieces * PIECE;
    j->partial[i] = fold_piece(j, i / j->pieces, from, sr_least(j->length, from + PIECE));
    return SR_OK;
}

static sr_status output_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    int64_t end = sr_least(j->outputs, (i + 1) * j->outputs_a_task);
    for (int64_t o = i * j->outputs_a_task; o < end; o++)
        SR_TRY(put(j, o, fold_piece(j, o, 0, j->length)));
    return SR_OK;
}

/* Merges dimensions that are contiguous in memory, so that runs are long. */
static void fold_dim(job *j, int64_t size, int64_t x) {
    int last = j->folded - 1;
    if (last < 0 || j->fold_x[last] != size * x) {
        last = j->folded++;
        j->fold_shape[last] = 1;
    }
    j->fold_shape[last] *= size;
    j->fold_x[last] = x;
    j->length *= size;
}

static void keep_dim(job *j, int64_t size, int64_t x, int64_t y) {
    int last = j->kept - 1;
    if (last < 0 || j->kept_x[last] != size * x || j->kept_y[last] != size * y) {
        last = j->kept++;
        j->kept_shape[last] = 1;
    }
    j->kept_shape[last] *= size;
    j->kept_x[last] = x;
    j->kept_y[last] = y;
    j->outputs *= size;
}

static void set_dims(job *j) {
    j->outputs = j->length = 1;
    for (int d = 0; d < j->x->ndim; d++) {
        int64_t size = j->x->shape[d];
        if (size == 1) continue;
        if (j->y->shape[d] == 1)
            fold_dim(j, size, j->x->stride[d]);
        else
            keep_dim(j, size, j->x->stride[d], j->y->stride[d]);
    }
    j->pieces = sr_blocks(j->length, PIECE);
    j->outputs_a_task = j->length > 0 ? sr_blocks(PIECE, j->length) : PIECE;
}

/* Sums over the leading dimensions of a contiguous f32 tensor: whole rows are added. */
static bool is_column_sum(const job *j) {
    return j->op == SR_SUM && j->folded == 1 && j->kept == 1 && j->x->dtype == SR_F32 &&
           j->y->dtype == SR_F32 && j->kept_x[0] == 1 && j->kept_y[0] == 1 &&
           j->fold_x[0] == j->kept_shape[0];
}

static sr_status column_sum(const job *j) {
    SR_TRY(sr_cpu_fill(j->y, 0));
    return sr_cpu_add_columns(j->y, SR_DATA(float, j->y), SR_DATA(float, j->x), false, j->length,
                              j->outputs);
}

sr_status sr_cpu_reduce(sr_tensor *y, const sr_tensor *x, sr_reduction op) {
    sr_cpu_state *cpu = sr_cpu_of(y);
    const sr_tensor *all[] = {x, y};
    for (int i = 0; i < 2; i++)
        if (all[i]->dtype == SR_F64) SR_TRY(sr_cpu_need_f32("reduce", all + i, 1));
    job j = {.simd = cpu->simd, .y = y, .x = x, .op = op};
    set_dims(&j);
    if (j.outputs == 0) return SR_OK;
    if (j.length == 0 && op != SR_SUM)
        return sr_fail(SR_EINVAL, "reduce: no elements; the reduced dimension has size 0");
    if (is_column_sum(&j)) return column_sum(&j);
    if (j.pieces <= 1)
        return sr_cpu_run(y, output_task, &j, sr_blocks(j.outputs, j.outputs_a_task));
    SR_TRY(sr_cpu_reserve(cpu, 0, (size_t)(j.outputs * j.pieces) * sizeof(fold)));
    j.partial = cpu->shared.data;
    SR_TRY(sr_cpu_run(y, piece_task, &j, j.outputs * j.pieces));
    for (int64_t o = 0; o < j.outputs; o++) {
        fold f = j.partial[o * j.pieces];
        for (int64_t i = 1; i < j.pieces; i++) join(&f, j.partial[o * j.pieces + i], op);
        SR_TRY(put(&j, o, f));
    }
    return SR_OK;
}

/* ---- softmax --------------------------------------------------------------------------------- */

typedef struct softmax_job {
    const sr_cpu_state *cpu;
    sr_tensor *out;
    const sr_tensor *a, *b; /* x; or dy and y */
    int64_t rows, cols, rows_a_task;
    bool log, backward;
} softmax_job;

static int64_t row_place(const sr_tensor *t, int64_t row) {
    return t->ndim == 0 ? 0 : sr_place(t->ndim - 1, t->shape, t->stride, row);
}
static int64_t last_stride(const sr_tensor *t) {
    return t->ndim == 0 ? 1 : t->stride[t->ndim - 1];
}

static sr_status softmax_task(void *context, int64_t i, int worker) {
    const softmax_job *j = context;
    float *a = sr_cpu_scratch(j->cpu, worker), *b = a + j->cols, *y = b + j->cols;
    int64_t end = sr_least(j->rows, (i + 1) * j->rows_a_task);
    for (int64_t r = i * j->rows_a_task; r < end; r++) {
        sr_cpu_load(a, j->a, row_place(j->a, r), last_stride(j->a), j->cols);
        if (j->backward) {
            sr_cpu_load(b, j->b, row_place(j->b, r), last_stride(j->b), j->cols);
            j->cpu->simd->softmax_row_backward(y, a, b, j->cols, j->log);
        } else {
            j->cpu->simd->softmax_row(y, a, j->cols, j->log);
        }
        sr_cpu_store(j->out, row_place(j->out, r), last_stride(j->out), y, j->cols);
    }
    return SR_OK;
}

static sr_status softmax_rows(softmax_job *j) {
    SR_TRY(sr_cpu_need_f32_or_bf16("softmax", SR_TENSORS(j->out, j->a, j->b)));
    sr_cpu_state *cpu = sr_cpu_of(j->out);
    j->cpu = cpu;
    j->cols = j->out->ndim > 0 ? j->out->shape[j->out->ndim - 1] : 1;
    j->rows = 1;
    for (int d = 0; d < j->out->ndim - 1; d++) j->rows *= j->out->shape[d];
    if (j->rows == 0 || j->cols == 0) return SR_OK;
    j->rows_a_task = sr_blocks(8192, j->cols);
    SR_TRY(sr_cpu_reserve(cpu, (size_t)(3 * j->cols) * sizeof(float), 0));
    return sr_cpu_run(j->out, softmax_task, j, sr_blocks(j->rows, j->rows_a_task));
}

sr_status sr_cpu_softmax(sr_tensor *y, const sr_tensor *x, bool log) {
    softmax_job j = {.out = y, .a = x, .log = log};
    return softmax_rows(&j);
}

sr_status sr_cpu_softmax_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *y,
                                  bool log) {
    softmax_job j = {.out = dx, .a = dy, .b = y, .log = log, .backward = true};
    return softmax_rows(&j);
}
