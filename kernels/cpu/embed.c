/* embed.c - sum of three embeddings, layer norm, dropout; backward scatters the gradients.
 *
 * Shapes    ids, types (T), word (V, H), position (S, H), type (2, H), sum, y (T, H)
 * Traffic   forward reads three rows and writes two: 20 T H bytes; backward reads dy and sum,
 *           and reads and writes a row of each table: about 28 T H bytes.
 * Order     a task of the scatter owns a stripe of columns and visits the rows in ascending order,
 *           so a table's row is summed in the order of the batch.
 */
#include <string.h>

#include "core/base/mem.h"
#include "kernels/cpu/norm.h"

enum { ROWS = 64, STRIPE = 32 };

static const float *maybe(const sr_tensor *t) {
    return t != NULL ? SR_DATA(float, t) : NULL;
}

/* Checks that ids and types of the rows of sequences are within their tables. */
static sr_status check_ids(const sr_tensor *ids, const sr_tensor *types, int64_t v, int64_t kinds,
                           const sr_layout *layout) {
    const int32_t *id = SR_DATA(int32_t, ids), *type = SR_DATA(int32_t, types);
    for (int64_t r = 0; r < layout->rows; r++) {
        if (layout->owner[r] < 0) continue;
        if (id[r] < 0 || id[r] >= v)
            return sr_fail(SR_EINVAL, "embed: ids[%lld] is %d, but the word table has %lld rows",
                           (long long)r, id[r], (long long)v);
        if (type[r] < 0 || type[r] >= kinds)
            return sr_fail(SR_EINVAL, "embed: types[%lld] is %d, but the type table has %lld rows",
                           (long long)r, type[r], (long long)kinds);
    }
    return SR_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct job {
    const sr_cpu_state *cpu;
    sr_rows y, sum;
    float *mean, *rstd;
    const int32_t *ids, *types;
    const sr_tensor *word, *position, *type;
    const float *gamma, *beta;
    int64_t cols;
    const sr_layout *layout;
    float eps;
    sr_dropout drop;
} job;

static void embed_row(const job *j, int64_t r, float *room) {
    const sr_simd *simd = j->cpu->simd;
    int64_t h = j->cols, at = j->layout->position[r];
    const float *word = sr_row_in(simd, sr_rows_of(j->word), j->ids[r], room),
                *position = sr_row_in(simd, sr_rows_of(j->position), at, room + h),
                *type = sr_row_in(simd, sr_rows_of(j->type), j->types[r], room + 2 * h);
    float *sum = sr_row_out(j->sum, r, room + 3 * h), *y = sr_row_out(j->y, r, room + 4 * h);
    simd->binary(sum, word, position, h, SR_ADD);
    simd->axpby(sum, type, h, 1.0f, 1.0f);
    sr_norm_row row = {.y = y, .x = sum, .gamma = j->gamma, .beta = j->beta, .n = h, .eps = j->eps};
    simd->norm_row(&row);
    j->mean[r] = row.mean;
    j->rstd[r] = row.rstd;
    sr_row_done(simd, j->sum, r, sum);
    if (j->drop.keep < 256) {
        sr_key key = sr_cpu_key(j->layout, j->layout->owner[r], j->drop, 0);
        simd->drop_row(y, y, h, &key, at, (uint32_t *)(room + 5 * h));
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
        j->mean[r] = j->rstd[r] = 0.0f;
    }
    return SR_OK;
}

sr_status sr_cpu_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                       const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                       const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                       const sr_tensor *beta, const sr_layout *layout, double eps,
                       sr_dropout drop) {
    const sr_tensor *all[] = {y, sum}, *rest[] = {mean, rstd, gamma, beta};
    SR_TRY(sr_cpu_need_f32("embed", rest, 4));
    SR_TRY(sr_cpu_need_f32_or_bf16("embed", all, 2));
    SR_TRY(check_ids(ids, types, word->shape[0], type->shape[0], layout));
    sr_cpu_state *cpu = sr_cpu_of(y);
    job j = {.cpu = cpu,
             .y = sr_rows_of(y),
             .sum = sr_rows_of(sum),
             .mean = SR_DATA(float, mean),
             .rstd = SR_DATA(float, rstd),
             .ids = SR_DATA(int32_t, ids),
             .types = SR_DATA(int32_t, types),
             .word = word,
             .position = position,
             .type = type,
             .gamma = SR_DATA(float, gamma),
             .beta = SR_DATA(float, beta),
             .cols = word->shape[1],
             .layout = layout,
             .eps = (float)eps,
             .drop = drop};
    size_t each = (size_t)(5 * j.cols + sr_drop_room(j.cols)) * sizeof(float);
    SR_TRY(sr_cpu_reserve(cpu, each, 0));
    return sr_cpu_run(y, embed_task, &j, sr_blocks(layout->rows, ROWS));
}

/* ---- backward -------------------------------------------------------------------------------- */

typedef struct scatter_job {
    const sr_simd *simd;
    float *word, *position, *type;
    const float *d;
    const int32_t *ids, *types;
    int64_t cols;
    const sr_layout *layout;
} scatter_job;

static sr_status scatter_task(void *context, int64_t i, int worker) {
    (void)worker;
    const scatter_job *j = context;
    int64_t from = i * STRIPE, n = sr_least(STRIPE, j->cols - from);
    for (int64_t r = 0; r < j->layout->rows; r++) {
        if (j->layout->owner[r] < 0) continue;
        float *const tables[] = {j->word, j->position, j->type};
        const int64_t rows[] = {j->ids[r], j->layout->position[r], j->types[r]};
        for (int k = 0; k < 3; k++)
            if (tables[k] != NULL)
                j->simd->axpby(tables[k] + rows[k] * j->cols + from, j->d + r * j->cols + from, n,
                               1.0f, 1.0f);
    }
    return SR_OK;
}

sr_status sr_cpu_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                                sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                                const sr_tensor *ids, const sr_tensor *types, const sr_tensor *sum,
                                const sr_tensor *gamma, const sr_tensor *mean,
                                const sr_tensor *rstd, const sr_layout *layout, sr_dropout drop) {
    const sr_tensor *all[] = {dy, sum};
    const sr_tensor *rest[] = {dword, dposition, dtype, dgamma, dbeta, gamma, mean, rstd};
    SR_TRY(sr_cpu_need_f32("embed", rest, 8));
    SR_TRY(sr_cpu_need_f32_or_bf16("embed", all, 2));
    sr_cpu_state *cpu = sr_cpu_of(dy);
    int64_t rows = dy->shape[0], cols = dy->shape[1];
    sr_norm_job j = {.cpu = cpu,
                     .dgamma = (float *)maybe(dgamma),
                     .dbeta = (float *)maybe(dbeta),
                     .dy = sr_rows_of(dy),
                     .sum = sr_rows_of(sum),
                     .gamma = SR_DATA(float, gamma),
                     .mean = SR_DATA(float, mean),
                     .rstd = SR_DATA(float, rstd),
                     .rows = rows,
                     .cols = cols,
                     .layout = layout,
                     .drop = drop,
                     .drop_after = true};
    size_t dsum = (size_t)(rows * cols) * sizeof(float);
    SR_TRY(sr_cpu_reserve(cpu, 0, dsum + sr_cpu_norm_room(&j)));
    j.dsum = (sr_rows){.data = cpu->shared.data, .cols = cols};
    j.partial = (float *)j.dsum.data + rows * cols;
    SR_TRY(sr_cpu_norm_backward(dy, &j));
    scatter_job s = {
        cpu->simd,   (float *)maybe(dword), (float *)maybe(dposition), (float *)maybe(dtype),
        j.dsum.data, SR_DATA(int32_t, ids), SR_DATA(int32_t, types),   cols,
        layout};
    return sr_cpu_run(dy, scatter_task, &s, sr_blocks(cols, STRIPE));
}
