/* matmul.c - batched matmul with any strides: (..., m, k) (..., k, n). */
#include "core/base/mem.h"
#include "kernels/cpu/cpu.h"

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
    return sr_place(shape->ndim - 2, shape->shape, t->stride, i);
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
    SR_TRY(sr_cpu_need_f32_or_bf16("matmul", SR_TENSORS(y, a, b)));
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
