/* matmul.c - batched matmul with any strides, and linear with its backward pass.
 *
 * Shapes    linear: x (T, H), w (F, H), b (F), y (T, F).  matmul: (..., m, k) (..., k, n).
 * Work      2 T H F flops forward, 4 T H F backward.
 * Fusion    bias and activation run on each block of y while it is in cache; backward computes dy
 * act' and the bias gradient in one pass.
 */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

enum { ROWS = 64, GRAIN = 128 };

/* ---- matmul ---------------------------------------------------------------------------------- */

static bool plain(const sr_tensor *t) {
    return t->dtype == SR_F32;
}

/* Every matrix of a batch as contiguous f32, if the product cannot read the tensor directly. */
typedef struct operand {
    float *data; /* contiguous copy, or NULL */
    int64_t row, col;
} operand;

typedef struct batch {
    sr_tensor *y;
    const sr_tensor *a, *b;
    double alpha, beta;
    int64_t m, n, k;
} batch;

static int64_t batch_offset(const sr_tensor *t, const sr_tensor *shape, int64_t i) {
    int64_t at = 0;
    for (int d = shape->ndim - 3; d >= 0; d--) {
        at += i % shape->shape[d] * t->stride[d];
        i /= shape->shape[d];
    }
    return at;
}

/* Copies one matrix to f32 rows. */
static void gather(float *to, const sr_tensor *t, int64_t at, int64_t rows, int64_t cols) {
    int64_t row = t->stride[t->ndim - 2], col = t->stride[t->ndim - 1];
    for (int64_t r = 0; r < rows; r++) sr_cpu_load(to + r * cols, t, at + r * row, col, cols);
}

typedef struct rooms {
    float *a, *b, *y; /* NULL: used in place */
} rooms;

static sr_status multiply_one(const batch *j, const rooms *room, int64_t i, bool nested) {
    int64_t at_y = batch_offset(j->y, j->y, i), at_a = batch_offset(j->a, j->y, i),
            at_b = batch_offset(j->b, j->y, i);
    int last = j->y->ndim - 1;
    sr_product p = {.m = j->m,
                    .n = j->n,
                    .k = j->k,
                    .a = room->a,
                    .a_row = j->k,
                    .a_col = 1,
                    .b = room->b,
                    .b_row = j->n,
                    .b_col = 1,
                    .c = room->y,
                    .ldc = j->n,
                    .alpha = (float)j->alpha,
                    .add = j->beta != 0,
                    .nested = nested};
    if (room->a != NULL) {
        gather(room->a, j->a, at_a, j->m, j->k);
    } else {
        p.a = SR_DATA(float, j->a) + at_a;
        p.a_row = j->a->stride[last - 1], p.a_col = j->a->stride[last];
    }
    if (room->b != NULL) {
        gather(room->b, j->b, at_b, j->k, j->n);
    } else {
        p.b = SR_DATA(float, j->b) + at_b;
        p.b_row = j->b->stride[last - 1], p.b_col = j->b->stride[last];
    }
    if (room->y != NULL && p.add)
        gather(room->y, j->y, at_y, j->m, j->n);
    else if (room->y == NULL)
        p.c = SR_DATA(float, j->y) + at_y, p.ldc = j->y->stride[last - 1];
    SR_TRY(sr_cpu_product(j->y, &p));
    for (int64_t r = 0; room->y != NULL && r < j->m; r++)
        sr_cpu_store(j->y, at_y + r * j->y->stride[last - 1], j->y->stride[last],
                     room->y + r * j->n, j->n);
    return SR_OK;
}

static sr_status make_rooms(rooms *room, const batch *j) {
    int last = j->y->ndim - 1;
    bool copy_y = !plain(j->y) || (j->y->stride[last] != 1 && j->n > 1);
    if (!plain(j->a)) SR_TRY(sr_new(&room->a, j->m * j->k));
    if (!plain(j->b)) SR_TRY(sr_new(&room->b, j->k * j->n));
    if (copy_y) SR_TRY(sr_new(&room->y, j->m * j->n));
    return SR_OK;
}

typedef struct batch_job {
    const batch *batch;
    const rooms *room;
} batch_job;

static sr_status batch_task(void *context, int64_t i, int worker) {
    (void)worker;
    const batch_job *j = context;
    return multiply_one(j->batch, j->room, i, true);
}

/* Several products that need no copies run in one task each, others in sequence on all threads.
 */
static sr_status multiply_all(const batch *j, const rooms *room, int64_t count) {
    if (count > 1 && room->a == NULL && room->b == NULL && room->y == NULL) {
        SR_TRY(sr_cpu_reserve(sr_cpu_of(j->y), sr_cpu_product_room(), 0));
        batch_job all = {j, room};
        return sr_cpu_run(j->y, batch_task, &all, count);
    }
    for (int64_t i = 0; i < count; i++) SR_TRY(multiply_one(j, room, i, false));
    return SR_OK;
}

sr_status sr_cpu_matmul(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, double alpha,
                        double beta) {
    const sr_tensor *all[] = {y, a, b};
    for (int i = 0; i < 3; i++)
        if (all[i]->dtype != SR_BF16) SR_TRY(sr_cpu_need_f32("matmul", all + i, 1));
    int last = y->ndim - 1;
    batch j = {y, a, b, alpha, beta, y->shape[last - 1], y->shape[last], a->shape[last]};
    int64_t count = 1;
    for (int d = 0; d < last - 1; d++) count *= y->shape[d];
    if (j.m == 0 || j.n == 0) return SR_OK;
    rooms room = {0};
    sr_status st = make_rooms(&room, &j);
    if (st == SR_OK) st = multiply_all(&j, &room, count);
    sr_free(room.a), sr_free(room.b), sr_free(room.y);
    return st;
}

/* ---- linear ---------------------------------------------------------------------------------- */

typedef struct finish {
    const sr_simd *simd;
    const float *b;
    float *pre;
    sr_act act;
} finish;

static void add_bias_and_act(const sr_product *p, int64_t row, int64_t rows, int64_t col,
                             int64_t cols) {
    const finish *f = p->context;
    for (int64_t r = row; r < row + rows; r++) {
        float *y = p->c + r * p->ldc + col;
        float *pre = f->pre != NULL ? f->pre + r * p->ldc + col : NULL;
        f->simd->act(y, pre, y, f->b != NULL ? f->b + col : NULL, cols, f->act);
    }
}

sr_status sr_cpu_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                        const sr_tensor *b, sr_act act) {
    sr_cpu_wide f32;
    const sr_tensor *all[] = {y, pre, x, w, b};
    SR_TRY(sr_cpu_widen(&f32, "linear", all, 5, 2));
    y = f32.t[0], pre = f32.t[1], x = f32.t[2], w = f32.t[3], b = f32.t[4];
    int64_t m = x->shape[0], k = x->shape[1], n = w->shape[0];
    finish f = {sr_cpu_of(y)->simd, b != NULL ? SR_DATA(float, b) : NULL,
                pre != NULL ? SR_DATA(float, pre) : NULL, act};
    sr_product p = {.c = SR_DATA(float, y),
                    .a = SR_DATA(float, x),
                    .b = SR_DATA(float, w),
                    .ldc = n,
                    .a_row = k,
                    .a_col = 1,
                    .b_row = 1,
                    .b_col = k,
                    .m = m,
                    .n = n,
                    .k = k,
                    .alpha = 1,
                    .context = &f};
    if (b != NULL || pre != NULL || act != SR_ACT_NONE) p.epilogue = add_bias_and_act;
    SR_TRY(sr_cpu_product(y, &p));
    return sr_cpu_round(&f32);
}

/* ---- linear's backward ----------------------------------------------------------------------- */

typedef struct slope_job {
    const sr_simd *simd;
    const float *dy, *saved;
    float *out;
    int64_t rows, cols;
    sr_act act;
} slope_job;

static sr_status slope_task(void *context, int64_t i, int worker) {
    (void)worker;
    const slope_job *j = context;
    int64_t at = i * ROWS * j->cols, n = sr_least(ROWS, j->rows - i * ROWS) * j->cols;
    j->simd->act_backward(j->out + at, j->dy + at, j->saved + at, n, j->act);
    return SR_OK;
}

/* *out: the gradient before the activation, in `shared` if there is an activation. */
static sr_status before_act(const float **out, const sr_tensor *dy, const sr_tensor *saved,
                            sr_act act) {
    *out = SR_DATA(float, dy);
    if (act == SR_ACT_NONE) return SR_OK;
    sr_cpu_state *cpu = sr_cpu_of(dy);
    int64_t rows = dy->shape[0], cols = dy->shape[1];
    size_t bytes;
    SR_TRY(sr_mul_size(&bytes, (size_t)(rows * cols), sizeof(float)));
    SR_TRY(sr_cpu_reserve(cpu, 0, bytes));
    slope_job j = {
        cpu->simd, SR_DATA(float, dy), SR_DATA(float, saved), cpu->shared.data, rows, cols, act};
    *out = cpu->shared.data;
    return sr_cpu_run(dy, slope_task, &j, sr_blocks(rows, ROWS));
}

typedef struct column_job {
    const sr_simd *simd;
    const float *x;
    float *sums;
    int64_t rows, cols;
} column_job;

/* GRAIN columns: each is summed over blocks of rows in f32, the blocks in f64. */
static sr_status column_task(void *context, int64_t i, int worker) {
    (void)worker;
    const column_job *j = context;
    int64_t col = i * GRAIN, cols = sr_least(GRAIN, j->cols - col);
    double sums[GRAIN] = {0};
    for (int64_t row = 0; row < j->rows; row += ROWS) {
        float part[GRAIN] = {0};
        int64_t end = sr_least(j->rows, row + ROWS);
        for (int64_t r = row; r < end; r++)
            j->simd->axpby(part, j->x + r * j->cols + col, cols, 1.0f, 1.0f);
        for (int64_t c = 0; c < cols; c++) sums[c] += part[c];
    }
    for (int64_t c = 0; c < cols; c++) j->sums[col + c] += (float)sums[c];
    return SR_OK;
}

sr_status sr_cpu_add_columns(const sr_tensor *t, float *sums, const float *x, int64_t rows,
                             int64_t cols) {
    column_job j = {sr_cpu_of(t)->simd, x, sums, rows, cols};
    return sr_cpu_run(t, column_task, &j, sr_blocks(cols, GRAIN));
}

sr_status sr_cpu_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                                 const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                                 const sr_tensor *y, sr_act act) {
    sr_cpu_wide f32;
    const sr_tensor *all[] = {dx, dy, x, w, pre, y}, *sums[] = {dw, db};
    SR_TRY(sr_cpu_need_f32("linear", sums, 2));
    SR_TRY(sr_cpu_widen(&f32, "linear", all, 6, 1));
    dx = f32.t[0], dy = f32.t[1], x = f32.t[2], w = f32.t[3], pre = f32.t[4], y = f32.t[5];
    int64_t rows = dy->shape[0], f = dy->shape[1], h = w->shape[1];
    const float *d;
    SR_TRY(before_act(&d, dy, act == SR_ACT_GELU || act == SR_ACT_GELU_TANH ? pre : y, act));
    if (dx != NULL) { /* (T, F) (F, H) */
        sr_product p = {.c = SR_DATA(float, dx),
                        .a = d,
                        .b = SR_DATA(float, w),
                        .ldc = h,
                        .a_row = f,
                        .a_col = 1,
                        .b_row = h,
                        .b_col = 1,
                        .m = rows,
                        .n = h,
                        .k = f,
                        .alpha = 1};
        SR_TRY(sr_cpu_product(dy, &p));
    }
    if (dw != NULL) { /* (F, T) (T, H) */
        sr_product p = {.c = SR_DATA(float, dw),
                        .a = d,
                        .b = SR_DATA(float, x),
                        .ldc = h,
                        .a_row = 1,
                        .a_col = f,
                        .b_row = h,
                        .b_col = 1,
                        .m = f,
                        .n = h,
                        .k = rows,
                        .alpha = 1,
                        .add = true};
        SR_TRY(sr_cpu_product(dy, &p));
    }
    if (db != NULL) SR_TRY(sr_cpu_add_columns(dy, SR_DATA(float, db), d, rows, f));
    return sr_cpu_round(&f32);
}
