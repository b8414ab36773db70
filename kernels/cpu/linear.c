/* linear.c - y = act(x w^T + b) and its backward pass.
 *
 * Shapes    x (T, H), w (F, H), b (F), y, pre (T, F)
 * Work      2 T H F flops forward, 4 T H F backward.
 * Fusion    bias and activation run on each block of y while it is in cache, and so does rounding
 *           to bf16; backward computes dy act' once, for three uses.  On tiles it is one pass over
 *           dy, which also makes the sums of columns and dy^T as tiles.
 * Numerics  in bf16, dy act' is rounded before it is multiplied; the gradient of the bias is a sum
 *           of the rounded values.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { ROWS = 64, GRAIN = 128 };

static bool is_bf16(const sr_tensor *t) {
    return t->dtype == SR_BF16;
}

static void *maybe(const sr_tensor *t) {
    return t != NULL ? sr_tensor_data(t) : NULL;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void add_bias_and_act(const sr_product *p, float *c, int64_t ld, int64_t row, int64_t rows,
                             int64_t col, int64_t cols) {
    const sr_finish *f = p->finish;
    const sr_simd *simd = p->context;
    const float *b = f->b != NULL ? (const float *)f->b + col : NULL;
    for (int64_t r = row; r < row + rows; r++, c += ld) {
        float *pre = f->pre != NULL ? (float *)f->pre + r * p->n + col : NULL;
        simd->act(c, pre, c, b, cols, f->act);
    }
}

static void add_bias_act_and_round(const sr_product *p, float *c, int64_t ld, int64_t row,
                                   int64_t rows, int64_t col, int64_t cols) {
    const sr_simd *simd = p->context;
    sr_rounded to = sr_rounded_at(p, row, col);
    simd->act_bf16(&to, c, ld, rows, cols);
}

sr_status sr_cpu_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                        const sr_tensor *b, sr_act act) {
    SR_TRY(sr_cpu_need_f32_or_bf16("linear", SR_TENSORS(y, pre, x, w, b)));
    int64_t m = x->shape[0], k = x->shape[1], n = w->shape[0];
    bool bf16 = is_bf16(y);
    sr_finish f = {maybe(b), maybe(pre), maybe(y), act};
    sr_product p = {.c = bf16 ? NULL : SR_DATA(float, y),
                    .a = sr_tensor_data(x),
                    .b = sr_tensor_data(w),
                    .weight = w,
                    .bf16 = bf16,
                    .ldc = n,
                    .a_row = k,
                    .a_col = 1,
                    .b_row = 1,
                    .b_col = k,
                    .m = m,
                    .n = n,
                    .k = k,
                    .alpha = 1,
                    .finish = &f,
                    .context = sr_cpu_of(y)->simd};
    if (bf16)
        p.epilogue = add_bias_act_and_round;
    else if (b != NULL || pre != NULL || act != SR_ACT_NONE)
        p.epilogue = add_bias_and_act;
    return sr_cpu_product(y, &p);
}

/* ---- the gradient before the activation ------------------------------------------------------ */

typedef struct derivative_job {
    const sr_simd *simd;
    const void *dy, *saved;
    void *out;
    int64_t rows, cols;
    bool bf16;
    sr_act act;
} derivative_job;

static sr_status derivative_task(void *context, int64_t i, int worker) {
    (void)worker;
    const derivative_job *j = context;
    int64_t at = i * ROWS * j->cols, n = sr_least(ROWS, j->rows - i * ROWS) * j->cols;
    if (j->bf16)
        j->simd->act_bf16_backward((sr_bf16 *)j->out + at, (const sr_bf16 *)j->dy + at,
                                   (const sr_bf16 *)j->saved + at, n, j->act);
    else
        j->simd->act_backward((float *)j->out + at, (const float *)j->dy + at,
                              (const float *)j->saved + at, n, j->act);
    return SR_OK;
}

/* Reserves `shared` for the result, if there is an activation. */
static sr_status derivative_job_of(derivative_job *j, const sr_tensor *dy, const sr_tensor *saved,
                                   sr_act act) {
    sr_cpu_state *cpu = sr_cpu_of(dy);
    *j = (derivative_job){.simd = cpu->simd};
    if (act == SR_ACT_NONE) return SR_OK;
    int64_t rows = dy->shape[0], cols = dy->shape[1];
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, (size_t)(rows * cols), sr_dtype_size(dy->dtype)));
    SR_TRY(sr_cpu_reserve(cpu, 0, bytes));
    *j = (derivative_job){.simd = cpu->simd,
                          .dy = sr_tensor_data(dy),
                          .saved = sr_tensor_data(saved),
                          .out = cpu->shared.data,
                          .rows = rows,
                          .cols = cols,
                          .bf16 = is_bf16(dy),
                          .act = act};
    return SR_OK;
}

/* *out: the gradient before the activation, in `shared` if there is an activation. */
static sr_status before_act(const void **out, const sr_tensor *dy, const sr_tensor *saved,
                            sr_act act) {
    *out = sr_tensor_data(dy);
    if (act == SR_ACT_NONE) return SR_OK;
    derivative_job j;
    SR_TRY(derivative_job_of(&j, dy, saved, act));
    *out = j.out;
    return sr_cpu_run(dy, derivative_task, &j, sr_blocks(j.rows, ROWS));
}

/* ---- sums of columns ------------------------------------------------------------------------- */

typedef struct column_job {
    const sr_simd *simd;
    const void *x;
    bool bf16;
    float *parts; /* (blocks of ROWS rows, cols) */
    int64_t rows, cols;
} column_job;

static sr_status column_task(void *context, int64_t i, int worker) {
    (void)worker;
    const column_job *j = context;
    const void *x = sr_operand_at(j->x, j->bf16, i * ROWS * j->cols);
    j->simd->column_sums(j->parts + i * j->cols, x, j->bf16, j->cols,
                         sr_least(ROWS, j->rows - i * ROWS), j->cols);
    return SR_OK;
}

sr_status sr_cpu_add_columns(const sr_tensor *t, float *sums, const void *x, bool bf16,
                             int64_t rows, int64_t cols) {
    sr_cpu_state *cpu = sr_cpu_of(t);
    int64_t blocks = sr_blocks(rows, ROWS);
    SR_TRY(sr_cpu_reserve_panels(cpu, (size_t)(blocks * cols) * sizeof(float)));
    column_job j = {cpu->simd, x, bf16, cpu->panels.data, rows, cols};
    SR_TRY(sr_cpu_run(t, column_task, &j, blocks));
    return sr_cpu_add_parts(t, sums, j.parts, cols, blocks, cols);
}

typedef struct parts_job {
    float *sums;
    const float *parts;
    int64_t stride, blocks, cols;
} parts_job;

static sr_status parts_task(void *context, int64_t i, int worker) {
    (void)worker;
    const parts_job *j = context;
    int64_t col = i * GRAIN, cols = sr_least(GRAIN, j->cols - col);
    double sums[GRAIN] = {0};
    for (int64_t b = 0; b < j->blocks; b++)
        for (int64_t c = 0; c < cols; c++) sums[c] += j->parts[b * j->stride + col + c];
    for (int64_t c = 0; c < cols; c++) j->sums[col + c] += (float)sums[c];
    return SR_OK;
}

sr_status sr_cpu_add_parts(const sr_tensor *t, float *sums, const float *parts, int64_t stride,
                           int64_t blocks, int64_t cols) {
    parts_job j = {sums, parts, stride, blocks, cols};
    return sr_cpu_run_whole(t, parts_task, &j, sr_blocks(cols, GRAIN));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* dx = d w: (T, F) (F, H) */
static sr_status input_gradient(sr_tensor *dx, const void *d, const sr_tensor *w) {
    int64_t f = w->shape[0], h = w->shape[1];
    bool bf16 = is_bf16(dx);
    sr_finish round = {.y = sr_tensor_data(dx)};
    sr_product p = {.c = bf16 ? NULL : SR_DATA(float, dx),
                    .a = d,
                    .b = sr_tensor_data(w),
                    .weight = w,
                    .bf16 = bf16,
                    .ldc = h,
                    .a_row = f,
                    .a_col = 1,
                    .b_row = h,
                    .b_col = 1,
                    .m = dx->shape[0],
                    .n = h,
                    .k = f,
                    .alpha = 1,
                    .epilogue = bf16 ? add_bias_act_and_round : NULL,
                    .finish = &round,
                    .context = sr_cpu_of(dx)->simd};
    return sr_cpu_product(dx, &p);
}

/* dw = or += d^T x: (F, T) (T, H); across: d^T on tiles, or NULL */
static sr_status weight_gradient(sr_tensor *dw, const void *d, const sr_tensor *x,
                                 const sr_across *across, bool add) {
    int64_t f = dw->shape[0], h = dw->shape[1];
    sr_product p = {.c = SR_DATA(float, dw),
                    .a = d,
                    .b = sr_tensor_data(x),
                    .bf16 = is_bf16(x),
                    .across = across,
                    .ldc = h,
                    .a_row = 1,
                    .a_col = f,
                    .b_row = h,
                    .b_col = 1,
                    .m = f,
                    .n = h,
                    .k = x->shape[0],
                    .alpha = 1,
                    .add = add};
    return sr_cpu_product(dw, &p);
}

/* ---- on tiles: one pass over dy -------------------------------------------------------------- */

/* While some rows of dy are in the cache: the gradient before the activation, sums of its columns,
 * and its tiles for the gradient of the weights. */
typedef struct pass_job {
    derivative_job derivative;
    column_job columns; /* parts is NULL: no sums */
    sr_across across;
    bool act;
} pass_job;

static sr_status pass_task(void *context, int64_t i, int worker) {
    const pass_job *j = context;
    const column_job *c = &j->columns;
    if (j->act) SR_TRY(derivative_task((void *)&j->derivative, i, worker));
    if (c->parts != NULL) SR_TRY(column_task((void *)c, i, worker));
    const sr_bf16 *rows = (const sr_bf16 *)c->x + i * ROWS * c->cols;
    sr_cpu_across_pack(&j->across, c->simd, rows, c->cols, i * ROWS,
                       sr_least(ROWS, c->rows - i * ROWS));
    return SR_OK;
}

static bool is_on_tiles(const sr_tensor *dy, const sr_tensor *dw) {
    return is_bf16(dy) && dw != NULL && sr_cpu_of(dy)->simd->tiles && dy->shape[0] > 0 &&
           dy->shape[1] > 0;
}

/* *out as before_act(), the tiles in *across, sums of columns added to db, which may be NULL. */
static sr_status pass_over(const void **out, sr_across *across, sr_tensor *db, const sr_tensor *dy,
                           const sr_tensor *saved, sr_act act) {
    sr_cpu_state *cpu = sr_cpu_of(dy);
    int64_t rows = dy->shape[0], cols = dy->shape[1], blocks = sr_blocks(rows, ROWS);
    size_t parts = db != NULL ? (size_t)(blocks * cols) * sizeof(float) : 0, bytes;
    SR_TRY(sr_cpu_across_size(across, cols, rows));
    SR_TRY(sr_add_size(&bytes, across->bytes, parts));
    SR_TRY(sr_cpu_reserve_across(cpu, bytes));
    across->tiles = cpu->across.data;
    pass_job j = {.across = *across, .act = act != SR_ACT_NONE};
    SR_TRY(derivative_job_of(&j.derivative, dy, saved, act));
    *out = j.act ? j.derivative.out : sr_tensor_data(dy);
    j.columns = (column_job){cpu->simd, *out, true, NULL, rows, cols};
    if (db != NULL) j.columns.parts = (float *)(across->tiles + across->bytes);
    SR_TRY(sr_cpu_run(dy, pass_task, &j, blocks));
    if (db == NULL) return SR_OK;
    return sr_cpu_add_parts(dy, SR_DATA(float, db), j.columns.parts, cols, blocks, cols);
}

static sr_status backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                          const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                          const sr_tensor *y, sr_act act, bool set_w) {
    SR_TRY(sr_cpu_need_f32("linear", SR_TENSORS(dw, db)));
    SR_TRY(sr_cpu_need_f32_or_bf16("linear", SR_TENSORS(dx, dy, x, w, pre, y)));
    const sr_tensor *saved = sr_act_keeps_input(act) ? pre : y;
    sr_across across;
    bool tiles = is_on_tiles(dy, dw);
    const void *d;
    if (tiles)
        SR_TRY(pass_over(&d, &across, db, dy, saved, act));
    else
        SR_TRY(before_act(&d, dy, saved, act));
    if (dx != NULL) SR_TRY(input_gradient(dx, d, w));
    if (dw != NULL) SR_TRY(weight_gradient(dw, d, x, tiles ? &across : NULL, !set_w));
    if (db == NULL || tiles) return SR_OK;
    return sr_cpu_add_columns(dy, SR_DATA(float, db), d, is_bf16(dy), dy->shape[0], dy->shape[1]);
}

sr_status sr_cpu_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                                 const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                                 const sr_tensor *y, sr_act act, bool add_x, bool set_w) {
    (void)add_x; /* this device does not */
    sr_status st = backward(dx, dw, db, dy, x, w, pre, y, act, set_w);
    bool unset = st != SR_OK && dw != NULL && set_w && dw->dtype == SR_F32;
    if (unset) /* not what an earlier step left there */
        memset(sr_tensor_data(dw), 0, (size_t)sr_tensor_elements(dw) * sizeof(float));
    return st;
}
