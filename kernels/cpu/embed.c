/* embed.c - sum of up to three embeddings, norm, dropout; backward scatters the gradients.
 *
 * Shapes    ids, types, positions (T), word (V, H), position (S, H), type (kinds, H), sum, y (T, H)
 * Traffic   forward reads three rows and writes two: 20 T H bytes; backward reads dy and sum,
 *           and reads and writes a row of each table: about 28 T H bytes.
 * Order     a task of the scatter owns a stripe of columns and visits the rows in ascending order,
 *           so a table's row is summed in the order of the batch.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/norm.h"

enum { ROWS = 64, STRIPE = 32, PARTS = 3 };

/* A table, or its gradient, and the row of it that a token adds: index[r], the position in the
 * sequence, or 0. */
typedef struct part {
    const char *name, *indices;
    const sr_tensor *table; /* or NULL */
    const int32_t *index;   /* or NULL */
} part;

static const int32_t *whole(const sr_tensor *t) {
    return t != NULL ? SR_DATA(int32_t, t) : NULL;
}

static void parts_of(part parts[PARTS], const sr_tensor *word, const sr_tensor *position,
                     const sr_tensor *type, const sr_tensor *ids, const sr_tensor *positions,
                     const sr_tensor *types, const sr_layout *layout) {
    const int32_t *at = positions != NULL ? whole(positions) : layout->position;
    parts[0] = (part){"word", "ids", word, whole(ids)};
    parts[1] = (part){"position", "positions", position, at};
    parts[2] = (part){"type", "types", type, whole(types)};
}

static int64_t row_of(const part *p, int64_t r) {
    return p->index != NULL ? p->index[r] : 0;
}

/* Checks that the indices of the rows of sequences are within their tables. */
static sr_status check_indices(const part parts[PARTS], const sr_layout *layout) {
    for (int64_t r = 0; r < layout->rows; r++) {
        for (int k = 0; k < PARTS && layout->owner[r] >= 0; k++) {
            const part *p = &parts[k];
            if (p->table == NULL) continue;
            int64_t row = row_of(p, r);
            if (row < 0 || row >= p->table->shape[0])
                return sr_fail(SR_EINVAL, "embed: %s[%lld] is %lld, but the %s table has %lld rows",
                               p->indices, (long long)r, (long long)row, p->name,
                               (long long)p->table->shape[0]);
        }
    }
    return SR_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct job {
    const sr_cpu_state *cpu;
    sr_float_rows y, sum;
    float *mean, *rstd;
    part parts[PARTS];
    const float *gamma, *beta;
    int64_t cols;
    const sr_layout *layout;
    float eps;
    sr_dropout drop;
} job;

/* Rows that a task needs beside the draws: one of a table, sum, y. */
enum { EMBED_ROWS = 3 };

/* sum = the row's embeddings */
static void add_parts(const job *j, int64_t r, float *sum, float *room) {
    const sr_simd *simd = j->cpu->simd;
    for (int k = 0; k < PARTS; k++) {
        if (j->parts[k].table == NULL) continue;
        const float *x =
            sr_row_in(simd, sr_rows_of(j->parts[k].table), row_of(&j->parts[k], r), room);
        if (k == 0)
            memcpy(sum, x, (size_t)j->cols * sizeof *sum);
        else
            simd->axpby(sum, x, j->cols, 1.0f, 1.0f);
    }
}

static void embed_row(const job *j, int64_t r, float *room) {
    const sr_simd *simd = j->cpu->simd;
    int64_t h = j->cols;
    float *y = sr_row_out(j->y, r, room + h);
    float *sum = j->gamma != NULL ? sr_row_out(j->sum, r, room + 2 * h) : y;
    add_parts(j, r, sum, room);
    if (j->gamma != NULL) {
        sr_norm_row row = {.y = y,
                           .x = sum,
                           .gamma = j->gamma,
                           .beta = j->beta,
                           .n = h,
                           .rms = j->mean == NULL,
                           .eps = j->eps};
        simd->norm_row(&row);
        if (j->mean != NULL) j->mean[r] = row.mean;
        j->rstd[r] = row.rstd;
        sr_row_done(simd, j->sum, r, sum);
    }
    if (j->drop.keep < 256) {
        sr_key key = sr_cpu_key(j->layout, j->layout->owner[r], j->drop, 0);
        simd->drop_row(y, y, h, &key, j->layout->position[r], (uint32_t *)(room + EMBED_ROWS * h));
    }
    sr_row_done(simd, j->y, r, y);
}

static sr_status embed_task(void *context, int64_t i, int worker) {
    const job *j = context;
    for (int64_t r = i * ROWS; r < sr_least(j->layout->rows, (i + 1) * ROWS); r++) {
        if (j->layout->owner[r] >= 0) {
            embed_row(j, r, sr_cpu_scratch(j->cpu, worker));
            continue;
        }
        sr_row_clear(j->sum, r);
        sr_row_clear(j->y, r);
        if (j->mean != NULL) j->mean[r] = 0.0f;
        if (j->rstd != NULL) j->rstd[r] = 0.0f;
    }
    return SR_OK;
}

sr_status sr_cpu_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                       const sr_tensor *ids, const sr_tensor *types, const sr_tensor *positions,
                       const sr_tensor *word, const sr_tensor *position, const sr_tensor *type,
                       const sr_tensor *gamma, const sr_tensor *beta, const sr_layout *layout,
                       double eps, sr_dropout drop) {
    SR_TRY(sr_cpu_need_f32("embed", SR_TENSORS(mean, rstd, gamma, beta)));
    SR_TRY(sr_cpu_need_f32_or_bf16("embed", SR_TENSORS(y, sum)));
    sr_cpu_state *cpu = sr_cpu_of(y);
    job j = {.cpu = cpu,
             .y = sr_rows_of(y),
             .sum = sr_rows_of(sum),
             .mean = sr_cpu_floats(mean),
             .rstd = sr_cpu_floats(rstd),
             .gamma = sr_cpu_floats(gamma),
             .beta = sr_cpu_floats(beta),
             .cols = word->shape[1],
             .layout = layout,
             .eps = (float)eps,
             .drop = drop};
    parts_of(j.parts, word, position, type, ids, positions, types, layout);
    SR_TRY(check_indices(j.parts, layout));
    size_t each = (size_t)(EMBED_ROWS * j.cols + sr_drop_room(j.cols)) * sizeof(float);
    SR_TRY(sr_cpu_reserve(cpu, each, 0));
    return sr_cpu_run(y, embed_task, &j, sr_blocks(layout->rows, ROWS));
}

/* ---- backward -------------------------------------------------------------------------------- */

/* dsum = dy through the dropout, where there is no norm. */
static sr_status undropped_task(void *context, int64_t i, int worker) {
    const sr_norm_job *j = context;
    const sr_simd *simd = j->cpu->simd;
    int64_t h = j->cols;
    float *room = sr_cpu_scratch(j->cpu, worker);
    for (int64_t r = i * ROWS; r < sr_least(j->rows, (i + 1) * ROWS); r++) {
        int32_t owner = j->layout->owner[r];
        float *dsum = sr_row_at(j->dsum, r);
        if (owner < 0) continue; /* never read */
        const float *dy = sr_row_in(simd, j->dy, r, room);
        sr_key key = sr_cpu_key(j->layout, owner, j->drop, 0);
        if (j->drop.keep < 256)
            simd->drop_row(dsum, dy, h, &key, j->layout->position[r], (uint32_t *)(room + h));
        else
            memcpy(dsum, dy, (size_t)h * sizeof *dsum);
    }
    return SR_OK;
}

typedef struct scatter_job {
    const sr_simd *simd;
    part parts[PARTS];
    const float *d;
    int64_t cols;
    const sr_layout *layout;
} scatter_job;

static sr_status scatter_task(void *context, int64_t i, int worker) {
    (void)worker;
    const scatter_job *j = context;
    int64_t from = i * STRIPE, n = sr_least(STRIPE, j->cols - from);
    for (int64_t r = 0; r < j->layout->rows; r++) {
        if (j->layout->owner[r] < 0) continue;
        for (int k = 0; k < PARTS; k++) {
            const part *p = &j->parts[k];
            if (p->table != NULL)
                j->simd->axpby(SR_DATA(float, p->table) + row_of(p, r) * j->cols + from,
                               j->d + r * j->cols + from, n, 1.0f, 1.0f);
        }
    }
    return SR_OK;
}

/* *d (T, H) = the gradient of the sum, in `shared`; dgamma and dbeta +=. */
static sr_status sum_gradient(const float **d, const sr_tensor *dy, sr_norm_job *j) {
    sr_cpu_state *cpu = sr_cpu_of(dy);
    bool norm = j->gamma != NULL;
    size_t dsum = (size_t)(j->rows * j->cols) * sizeof(float);
    SR_TRY(sr_cpu_reserve(cpu, (size_t)(j->cols + sr_drop_room(j->cols)) * sizeof(float),
                          dsum + (norm ? sr_cpu_norm_room(j) : 0)));
    *d = cpu->shared.data;
    j->dsum = (sr_float_rows){.data = cpu->shared.data, .cols = j->cols};
    j->partial = (float *)j->dsum.data + j->rows * j->cols;
    if (norm) return sr_cpu_norm_backward(dy, j);
    return sr_cpu_run(dy, undropped_task, j, sr_blocks(j->rows, ROWS));
}

sr_status sr_cpu_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                                sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                                const sr_tensor *ids, const sr_tensor *types,
                                const sr_tensor *positions, const sr_tensor *sum,
                                const sr_tensor *gamma, const sr_tensor *mean,
                                const sr_tensor *rstd, const sr_layout *layout, sr_dropout drop) {
    SR_TRY(sr_cpu_need_f32("embed",
                           SR_TENSORS(dword, dposition, dtype, dgamma, dbeta, gamma, mean, rstd)));
    SR_TRY(sr_cpu_need_f32_or_bf16("embed", SR_TENSORS(dy, sum)));
    sr_norm_job j = {.cpu = sr_cpu_of(dy),
                     .dgamma = sr_cpu_floats(dgamma),
                     .dbeta = sr_cpu_floats(dbeta),
                     .dy = sr_rows_of(dy),
                     .sum = sr_rows_of(sum),
                     .gamma = sr_cpu_floats(gamma),
                     .mean = sr_cpu_floats(mean),
                     .rstd = sr_cpu_floats(rstd),
                     .rows = dy->shape[0],
                     .cols = dy->shape[1],
                     .layout = layout,
                     .drop = drop,
                     .drop_after = true};
    scatter_job s = {.simd = j.cpu->simd, .cols = j.cols, .layout = layout};
    parts_of(s.parts, dword, dposition, dtype, ids, positions, types, layout);
    SR_TRY(sum_gradient(&s.d, dy, &j));
    return sr_cpu_run(dy, scatter_task, &s, sr_blocks(j.cols, STRIPE));
}
