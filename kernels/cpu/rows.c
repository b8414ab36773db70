/* rows.c - gather rows of a tensor, scatter-add them back, and replace some.
 *
 * Traffic   gather reads and writes 4 M H bytes each way; scatter also reads y.
 * Order     scatter adds in the order of m: a task owns a stripe of columns and visits all rows.
 */
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { ROWS = 64, STRIPE = 64 };

typedef struct job {
    sr_tensor *y;
    const sr_tensor *x;
    const int32_t *rows;
    int64_t count, width, step; /* elements per row; length of rows[] */
} job;

static sr_status check_rows(const char *op, const job *j, const sr_tensor *into) {
    for (int64_t m = 0; m < j->count; m++) {
        int32_t row = j->rows[m * j->step];
        if (row < 0 || row >= into->shape[0])
            return sr_fail(SR_EINVAL,
                           "%s: rows[%lld] is %d, but there are %lld rows (counted "
                           "from 0)",
                           op, (long long)m, row, (long long)into->shape[0]);
    }
    return SR_OK;
}

/* The offset of element i of row r; the rows of most tensors are contiguous. */
static int64_t place(const sr_tensor *t, int64_t r, int64_t i) {
    return r * t->stride[0] + sr_place(t->ndim - 1, t->shape + 1, t->stride + 1, i);
}

static bool dense(const sr_tensor *t) {
    int64_t step = 1;
    for (int d = t->ndim - 1; d > 0; d--) {
        if (t->shape[d] != 1 && t->stride[d] != step) return false;
        step *= t->shape[d];
    }
    return true;
}

static void copy_row(const job *j, int64_t m) {
    int64_t from = j->rows[m * j->step];
    size_t size = sr_dtype_size(j->x->dtype);
    char *y = sr_tensor_data(j->y);
    const char *x = sr_tensor_data(j->x);
    if (dense(j->x) && dense(j->y)) {
        memcpy(y + (size_t)(m * j->y->stride[0]) * size,
               x + (size_t)(from * j->x->stride[0]) * size, (size_t)j->width * size);
        return;
    }
    for (int64_t i = 0; i < j->width; i++)
        memcpy(y + (size_t)place(j->y, m, i) * size, x + (size_t)place(j->x, from, i) * size, size);
}

static sr_status gather_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    for (int64_t m = i * ROWS; m < sr_least(j->count, (i + 1) * ROWS); m++) copy_row(j, m);
    return SR_OK;
}

static job make(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows, const sr_tensor *shape) {
    job j = {.y = y,
             .x = x,
             .rows = SR_DATA(int32_t, rows),
             .count = rows->shape[0],
             .width = 1,
             .step = rows->stride[0]};
    for (int d = 1; d < shape->ndim; d++) j.width *= shape->shape[d];
    return j;
}

sr_status sr_cpu_gather_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    job j = make(y, x, rows, x);
    SR_TRY(check_rows("gather_rows", &j, x));
    return sr_cpu_run(y, gather_task, &j, sr_blocks(j.count, ROWS));
}

/* Elements from .. to of row m as f32, in `room` unless they can be read in place. */
static const float *part_of_row(float *room, const sr_tensor *x, int64_t m, int64_t from,
                                int64_t to) {
    if (dense(x) && x->dtype == SR_F32) return SR_DATA(float, x) + m * x->stride[0] + from;
    if (dense(x)) {
        sr_cpu_load(room, x, m * x->stride[0] + from, 1, to - from);
        return room;
    }
    for (int64_t c = from; c < to; c++) sr_cpu_load(room + c - from, x, place(x, m, c), 1, 1);
    return room;
}

static sr_status scatter_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    int64_t from = i * STRIPE, to = sr_least(j->width, from + STRIPE);
    bool direct = dense(j->x) && dense(j->y);
    const sr_simd *simd = sr_cpu_of(j->y)->simd;
    for (int64_t m = 0; m < j->count; m++) {
        float room[STRIPE], *y = SR_DATA(float, j->y);
        const float *x = part_of_row(room, j->x, m, from, to);
        int64_t row = j->rows[m * j->step];
        if (direct)
            simd->axpby(y + row * j->y->stride[0] + from, x, to - from, 1.0f, 1.0f);
        else
            for (int64_t c = from; c < to; c++) y[place(j->y, row, c)] += x[c - from];
    }
    return SR_OK;
}

sr_status sr_cpu_scatter_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    SR_TRY(sr_cpu_need_f32("scatter_rows", SR_TENSORS(y)));
    SR_TRY(sr_cpu_need_f32_or_bf16("scatter_rows", SR_TENSORS(x)));
    job j = make(y, x, rows, y);
    SR_TRY(check_rows("scatter_rows", &j, y));
    return sr_cpu_run(y, scatter_task, &j, sr_blocks(j.width, STRIPE));
}

/* Row m of x, or zeros, into row rows[m] of y. */
static sr_status put_task(void *context, int64_t i, int worker) {
    (void)worker;
    const job *j = context;
    size_t size = sr_dtype_size(j->y->dtype);
    bool direct = dense(j->y) && (j->x == NULL || dense(j->x));
    char *y = sr_tensor_data(j->y);
    const char *x = j->x != NULL ? sr_tensor_data(j->x) : NULL;
    for (int64_t m = i * ROWS; m < sr_least(j->count, (i + 1) * ROWS); m++) {
        int64_t row = j->rows[m * j->step], n = direct ? 1 : j->width;
        size_t bytes = direct ? (size_t)j->width * size : size;
        for (int64_t c = 0; c < n; c++) {
            char *to = y + (size_t)place(j->y, row, c) * size;
            if (x == NULL)
                memset(to, 0, bytes);
            else
                memcpy(to, x + (size_t)place(j->x, m, c) * size, bytes);
        }
    }
    return SR_OK;
}

/* A row may be named only once: if two tasks wrote it, the last one would win. */
static sr_status check_once(const job *j, sr_cpu_state *cpu) {
    SR_TRY(sr_cpu_reserve(cpu, 0, (size_t)j->y->shape[0]));
    uint8_t *seen = cpu->shared.data;
    if (j->y->shape[0] > 0) memset(seen, 0, (size_t)j->y->shape[0]);
    for (int64_t m = 0; m < j->count; m++) {
        int32_t row = j->rows[m * j->step];
        if (seen[row]++)
            return sr_fail(SR_EINVAL, "put_rows: rows[%lld] is %d again; name a row once",
                           (long long)m, row);
    }
    return SR_OK;
}

sr_status sr_cpu_put_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows) {
    job j = make(y, x, rows, y);
    SR_TRY(check_rows("put_rows", &j, y));
    SR_TRY(check_once(&j, sr_cpu_of(y)));
    return sr_cpu_run(y, put_task, &j, sr_blocks(j.count, ROWS));
}
