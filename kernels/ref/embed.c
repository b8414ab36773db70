/* embed.c - sum of three embeddings, layer norm, dropout.
 *
 * Shapes   ids, types (T) i32   word (V, H)   position (S, H)   type (2, H)   gamma, beta (H)
 *          y, sum (T, H)        mean, rstd (T)
 *
 *   sum = word[ids] + position[position in the sequence] + type[types]
 *   y   = dropout((sum - mean) rstd gamma + beta)
 *
 * Slack rows of y and sum are zero and contribute to no gradient; their ids are not read.
 */
#include "core/base/mem.h"
#include "kernels/ref/ref.h"

static sr_status check_row(const char *name, int32_t row, const sr_tensor *table, int64_t t) {
    if (row >= 0 && row < table->shape[0]) return SR_OK;
    return sr_fail(SR_EINVAL, "embed: %s %d at row %lld, but the table has rows 0 to %lld", name,
                   row, (long long)t, (long long)table->shape[0] - 1);
}

static sr_status check_tables(const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                              const sr_tensor *position, const sr_tensor *type,
                              const sr_layout *layout) {
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        SR_TRY(check_row("id", SR_DATA(int32_t, ids)[t], word, t));
        SR_TRY(check_row("type", SR_DATA(int32_t, types)[t], type, t));
        SR_TRY(check_row("position", layout->position[t], position, t));
    }
    return SR_OK;
}

static const double *row_of(const sr_tensor *table, int64_t row) {
    return SR_DATA(double, table) + row * table->shape[1];
}

sr_status ref_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                    const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                    const sr_tensor *beta, const sr_layout *layout, double eps, sr_dropout drop) {
    int64_t columns = word->shape[1];
    SR_TRY(check_tables(ids, types, word, position, type, layout));
    SR_TRY(ref_fill(y, 0));
    SR_TRY(ref_fill(sum, 0));
    SR_TRY(ref_fill(mean, 0));
    SR_TRY(ref_fill(rstd, 0));
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        const double *w = row_of(word, SR_DATA(int32_t, ids)[t]);
        const double *p = row_of(position, layout->position[t]);
        const double *k = row_of(type, SR_DATA(int32_t, types)[t]);
        double *s = SR_DATA(double, sum) + t * columns, *out = SR_DATA(double, y) + t * columns;
        for (int64_t i = 0; i < columns; i++) s[i] = w[i] + p[i] + k[i];
        ref_norm_row(out, SR_DATA(double, mean) + t, SR_DATA(double, rstd) + t, s,
                     SR_DATA(double, gamma), SR_DATA(double, beta), columns, eps);
        for (int64_t i = 0; i < columns; i++) {
            double z = ref_drop_row(layout, drop, t, i);
            out[i] = z != 0 ? z * out[i] : 0.0;
        }
    }
    return SR_OK;
}

static void add_row(sr_tensor *table, int64_t row, const double *x) {
    if (table == NULL) return;
    int64_t columns = table->shape[1];
    for (int64_t i = 0; i < columns; i++) SR_DATA(double, table)[row * columns + i] += x[i];
}

sr_status ref_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop) {
    int64_t columns = dy->shape[1];
    double *scratch = NULL; /* dy after dropout; dsum */
    SR_TRY(sr_new(&scratch, 2 * columns));
    double *g = scratch, *dsum = scratch + columns;
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        for (int64_t i = 0; i < columns; i++) {
            double z = ref_drop_row(layout, drop, t, i);
            g[i] = z != 0 ? z * SR_DATA(double, dy)[t * columns + i] : 0.0;
        }
        ref_norm_row_backward(dsum, dgamma != NULL ? SR_DATA(double, dgamma) : NULL,
                              dbeta != NULL ? SR_DATA(double, dbeta) : NULL, g,
                              SR_DATA(double, sum) + t * columns, SR_DATA(double, gamma),
                              SR_DATA(double, mean)[t], SR_DATA(double, rstd)[t], columns);
        add_row(dword, SR_DATA(int32_t, ids)[t], dsum);
        add_row(dposition, layout->position[t], dsum);
        add_row(dtype, SR_DATA(int32_t, types)[t], dsum);
    }
    sr_free(scratch);
    return SR_OK;
}
