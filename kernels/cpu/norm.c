/* norm.c - residual add, dropout and layer or RMS norm in one pass over each row.
 *
 * Shapes    x, residual, sum, y (T, H), gamma, beta (H), mean, rstd (T)
 * Traffic   forward reads x and residual, writes sum and y: 16 T H bytes; backward reads dy and
 *           sum, writes dx and dresidual: 16 T H bytes; half of that in bf16.
 * Numerics  mean and rstd are those of the sum before it is rounded; two-pass variance; the mask of
 *           dropout is drawn again in the backward pass.  dgamma and dbeta are summed over blocks
 *           of ROWS rows, the blocks in ascending order in f64.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/norm.h"

enum { ROWS = 64, VECTOR = 16 };

/* Whether a row can be processed as vectors of bf16; true for an absent row. */
static bool bf16_or_absent(sr_float_rows x) {
    return x.data == NULL || (x.bf16 && x.cols % VECTOR == 0);
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct job {
    const sr_cpu_state *cpu;
    sr_float_rows y, sum, x, residual;
    float *mean, *rstd;
    const float *gamma, *beta;
    int64_t rows, cols;
    const sr_layout *layout;
    float eps;
    sr_dropout drop;
    bool all_bf16;
} job;

/* Rows that are all bf16 are processed in place, others in f32. */
static sr_norm_row describe(const job *j, int64_t r, float *room) {
    const sr_simd *simd = j->cpu->simd;
    int64_t cols = j->cols;
    sr_norm_row row = {.gamma = j->gamma,
                       .beta = j->beta,
                       .n = cols,
                       .rms = j->mean == NULL,
                       .eps = j->eps,
                       .words = (uint32_t *)(room + 4 * cols)};
    if (j->all_bf16) {
        row.y = sr_row_at(j->y, r), row.sum = sr_row_at(j->sum, r);
        row.x = sr_row_at(j->x, r), row.residual = sr_row_at(j->residual, r);
        row.room = room;
        return row;
    }
    row.y = sr_row_out(j->y, r, room);
    row.sum = sr_row_out(j->sum, r, room + cols);
    row.x = sr_row_in(simd, j->x, r, room + 2 * cols);
    row.residual = sr_row_in(simd, j->residual, r, room + 3 * cols);
    return row;
}

static sr_status norm_task(void *context, int64_t i, int worker) {
    const job *j = context;
    const sr_simd *simd = j->cpu->simd;
    for (int64_t r = i * ROWS; r < sr_least(j->rows, (i + 1) * ROWS); r++) {
        sr_norm_row row = describe(j, r, sr_cpu_scratch(j->cpu, worker));
        sr_key key;
        if (j->drop.keep < 256 && j->layout->owner[r] >= 0) {
            key = sr_cpu_key(j->layout, j->layout->owner[r], j->drop, 0);
            row.key = &key;
            row.row = j->layout->position[r];
        }
        simd->norm_row(&row);
        if (!j->all_bf16) {
            sr_row_done(simd, j->y, r, row.y);
            sr_row_done(simd, j->sum, r, row.sum);
        }
        if (j->mean != NULL) j->mean[r] = row.mean;
        j->rstd[r] = row.rstd;
    }
    return SR_OK;
}

sr_status sr_cpu_residual_norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                               const sr_tensor *x, const sr_tensor *residual,
                               const sr_tensor *gamma, const sr_tensor *beta,
                               const sr_layout *layout, double eps, sr_dropout drop) {
    SR_TRY(sr_cpu_need_f32("residual_norm", SR_TENSORS(mean, rstd, gamma, beta)));
    SR_TRY(sr_cpu_need_f32_or_bf16("residual_norm", SR_TENSORS(y, sum, x, residual)));
    sr_cpu_state *cpu = sr_cpu_of(y);
    job j = {.cpu = cpu,
             .y = sr_rows_of(y),
             .sum = sr_rows_of(sum),
             .x = sr_rows_of(x),
             .residual = sr_rows_of(residual),
             .mean = sr_cpu_floats(mean),
             .rstd = SR_DATA(float, rstd),
             .gamma = SR_DATA(float, gamma),
             .beta = sr_cpu_floats(beta),
             .rows = x->shape[0],
             .cols = x->shape[1],
             .layout = layout,
             .eps = (float)eps,
             .drop = drop};
    j.all_bf16 = bf16_or_absent(j.x) && bf16_or_absent(j.y) && bf16_or_absent(j.sum) &&
                 bf16_or_absent(j.residual);
    SR_TRY(sr_cpu_reserve(cpu, (size_t)(4 * j.cols + sr_drop_room(j.cols)) * sizeof(float), 0));
    return sr_cpu_run(y, norm_task, &j, sr_blocks(j.rows, ROWS));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Rows that a task needs beside the draws: dsum, dy, dropped dy or dx, sum, more. */
enum { BACK_ROWS = 5 };

/* The rows of a backward pass, through `room` unless all are bf16. */
static void set_rows(const sr_norm_job *j, int64_t r, float *room, sr_norm_back *row) {
    const sr_simd *simd = j->cpu->simd;
    int64_t cols = j->cols;
    if (row->bf16) {
        row->dsum = sr_row_at(j->dsum, r), row->dx = sr_row_at(j->dx, r);
        row->dy = sr_row_at(j->dy, r), row->sum = sr_row_at(j->sum, r);
        row->more = sr_row_at(j->more, r);
        return;
    }
    row->dsum = sr_row_out(j->dsum, r, room);
    row->dy = sr_row_in(simd, j->dy, r, room + cols);
    row->dx = sr_row_out(j->dx, r, room + 2 * cols);
    row->sum = sr_row_in(simd, j->sum, r, room + 3 * cols);
    row->more = sr_row_in(simd, j->more, r, room + 4 * cols);
}

static void back_row(const sr_norm_job *j, int64_t r, float *part, float *room, uint32_t *words) {
    const sr_simd *simd = j->cpu->simd;
    int64_t cols = j->cols;
    int32_t owner = j->layout != NULL ? j->layout->owner[r] : 0;
    bool drops = j->drop.keep < 256 && owner >= 0;
    sr_norm_back row = {.dgamma = j->dgamma != NULL ? part : NULL,
                        .dbeta = j->dbeta != NULL ? part + cols : NULL,
                        .gamma = j->gamma,
                        .n = cols,
                        .rms = j->mean == NULL,
                        .mean = j->mean != NULL ? j->mean[r] : 0.0f,
                        .rstd = j->rstd[r],
                        .row = j->layout != NULL ? j->layout->position[r] : 0,
                        .words = words,
                        .bf16 = !j->drop_after && bf16_or_absent(j->dy) && bf16_or_absent(j->sum) &&
                                bf16_or_absent(j->more) && bf16_or_absent(j->dsum) &&
                                bf16_or_absent(j->dx)};
    set_rows(j, r, room, &row);
    sr_key key;
    if (drops) key = sr_cpu_key(j->layout, owner, j->drop, 0);
    if (drops && j->drop_after) { /* there is no dx, whose room the dropped dy takes */
        simd->drop_row(room + 2 * cols, row.dy, cols, &key, row.row, words);
        row.dy = room + 2 * cols;
    } else if (drops) {
        row.key = &key;
    }
    simd->norm_row_backward(&row);
    if (row.bf16) return;
    sr_row_done(simd, j->dsum, r, row.dsum);
    sr_row_done(simd, j->dx, r, row.dx);
}

static sr_status back_task(void *context, int64_t i, int worker) {
    const sr_norm_job *j = context;
    float *room = sr_cpu_scratch(j->cpu, worker), *part = j->partial + i * 2 * j->cols;
    uint32_t *words = (uint32_t *)(room + BACK_ROWS * j->cols);
    memset(part, 0, (size_t)(2 * j->cols) * sizeof *part);
    for (int64_t r = i * ROWS; r < sr_least(j->rows, (i + 1) * ROWS); r++) {
        if (j->layout == NULL || j->layout->owner[r] >= 0)
            back_row(j, r, part, room, words);
        else /* the gradient of a slack row is zero, regardless of dy */
            sr_row_clear(j->dx, r), sr_row_clear(j->dsum, r);
    }
    return SR_OK;
}

size_t sr_cpu_norm_room(const sr_norm_job *j) {
    return (size_t)(sr_blocks(j->rows, ROWS) * 2 * j->cols) * sizeof(float);
}

sr_status sr_cpu_norm_backward(const sr_tensor *t, sr_norm_job *j) {
    int64_t blocks = sr_blocks(j->rows, ROWS);
    size_t each = (size_t)(BACK_ROWS * j->cols + sr_drop_room(j->cols)) * sizeof(float);
    SR_TRY(sr_cpu_reserve((sr_cpu_state *)j->cpu, each, 0));
    SR_TRY(sr_cpu_run(t, back_task, j, blocks));
    int64_t stride = 2 * j->cols;
    if (j->dgamma != NULL)
        SR_TRY(sr_cpu_add_parts(t, j->dgamma, j->partial, stride, blocks, j->cols));
    if (j->dbeta == NULL) return SR_OK;
    return sr_cpu_add_parts(t, j->dbeta, j->partial + j->cols, stride, blocks, j->cols);
}

sr_status sr_cpu_residual_norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                                        sr_tensor *dbeta, sr_tensor *dbias, const sr_tensor *dy,
                                        const sr_tensor *dsum, const sr_tensor *sum,
                                        const sr_tensor *gamma, const sr_tensor *mean,
                                        const sr_tensor *rstd, const sr_layout *layout,
                                        sr_dropout drop) {
    (void)dbias; /* this device does not add */
    SR_TRY(sr_cpu_need_f32("residual_norm", SR_TENSORS(dgamma, dbeta, gamma, mean, rstd)));
    SR_TRY(sr_cpu_need_f32_or_bf16("residual_norm", SR_TENSORS(dx, dresidual, dy, dsum, sum)));
    sr_cpu_state *cpu = sr_cpu_of(dy);
    sr_norm_job j = {.cpu = cpu,
                     .dx = sr_rows_of(dx),
                     .dsum = sr_rows_of(dresidual),
                     .dy = sr_rows_of(dy),
                     .more = sr_rows_of(dsum),
                     .sum = sr_rows_of(sum),
                     .dgamma = sr_cpu_floats(dgamma),
                     .dbeta = sr_cpu_floats(dbeta),
                     .gamma = SR_DATA(float, gamma),
                     .mean = sr_cpu_floats(mean),
                     .rstd = SR_DATA(float, rstd),
                     .rows = dy->shape[0],
                     .cols = dy->shape[1],
                     .layout = layout,
                     .drop = drop};
    SR_TRY(sr_cpu_reserve(cpu, 0, sr_cpu_norm_room(&j)));
    j.partial = cpu->shared.data;
    return sr_cpu_norm_backward(dy, &j);
}
