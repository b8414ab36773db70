/* embed.c - sum of up to three embeddings, norm, dropout.
 *
 * Shapes   ids, types, positions (T) i32   word (V, H)   position (S, H)   type (kinds, H)
 *          gamma, beta (H)                 y, sum (T, H)                   mean, rstd (T)
 *
 *   sum = word[ids] + position[positions] + type[types]
 *   y   = dropout((sum - mean) rstd gamma + beta)
 *
 * There may be no position or no type table.  Without positions those in the sequences are taken,
 * without types 0.  Norms as in norm.c; without gamma there is none: y = dropout(sum).
 * Slack rows of y and sum are zero and contribute to no gradient; their ids are not read.
 */
#include "core/base/mem.h"
#include "kernels/ref/ref.h"

/* An optional table and the row of it that each token adds. */
typedef struct part {
    const char *name;
    const sr_tensor *table, *index;
} part;

static int64_t row_of(const part *p, const int32_t *otherwise, int64_t t) {
    if (p->index != NULL) return SR_DATA(int32_t, p->index)[t];
    return otherwise != NULL ? otherwise[t] : 0;
}

static sr_status check_row(const part *p, const int32_t *otherwise, int64_t t) {
    if (p->table == NULL) return SR_OK;
    int64_t row = row_of(p, otherwise, t);
    if (row >= 0 && row < p->table->shape[0]) return SR_OK;
    return sr_fail(SR_EINVAL, "embed: %s %lld at row %lld, but the table has rows 0 to %lld",
                   p->name, (long long)row, (long long)t, (long long)p->table->shape[0] - 1);
}

static void add_row(double *s, const part *p, int64_t row) {
    if (p->table == NULL) return;
    int64_t columns = p->table->shape[1];
    for (int64_t i = 0; i < columns; i++) s[i] += SR_DATA(double, p->table)[row * columns + i];
}

/* y = dropout(x), one row; in place too. */
static void drop_row(double *y, const double *x, const sr_layout *layout, sr_dropout drop,
                     int64_t t, int64_t columns) {
    for (int64_t i = 0; i < columns; i++) {
        double z = ref_drop_row(layout, drop, t, i);
        y[i] = z != 0 ? z * x[i] : 0.0;
    }
}

sr_status ref_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *positions,
                    const sr_tensor *word, const sr_tensor *position, const sr_tensor *type,
                    const sr_tensor *gamma, const sr_tensor *beta, const sr_layout *layout,
                    double eps, sr_dropout drop) {
    int64_t columns = word->shape[1];
    const part w = {"id", word, ids}, p = {"position", position, positions},
               k = {"type", type, types};
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        SR_TRY(check_row(&w, NULL, t));
        SR_TRY(check_row(&k, NULL, t));
        SR_TRY(check_row(&p, layout->position, t));
    }
    sr_tensor *const outputs[] = {y, sum, mean, rstd};
    for (int i = 0; i < 4; i++)
        if (outputs[i] != NULL) SR_TRY(ref_fill(outputs[i], 0));
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        double *out = SR_DATA(double, y) + t * columns;
        double *s = sum != NULL ? SR_DATA(double, sum) + t * columns : out;
        add_row(s, &w, row_of(&w, NULL, t));
        add_row(s, &p, row_of(&p, layout->position, t));
        add_row(s, &k, row_of(&k, NULL, t));
        if (gamma != NULL)
            ref_norm_row(out, ref_element(mean, t), SR_DATA(double, rstd) + t, s,
                         SR_DATA(double, gamma), ref_element(beta, 0), columns, eps);
        drop_row(out, out, layout, drop, t, columns);
    }
    return SR_OK;
}

static void add_gradient(sr_tensor *table, int64_t row, const double *dsum) {
    if (table == NULL) return;
    int64_t columns = table->shape[1];
    for (int64_t i = 0; i < columns; i++) SR_DATA(double, table)[row * columns + i] += dsum[i];
}

sr_status ref_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types,
                             const sr_tensor *positions, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop) {
    int64_t columns = dy->shape[1];
    const part p = {"position", NULL, positions}, k = {"type", NULL, types};
    double *scratch = NULL; /* dy after dropout; dsum */
    SR_TRY(sr_new(&scratch, 2 * columns));
    double *g = scratch, *dsum = gamma != NULL ? scratch + columns : g;
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        drop_row(g, SR_DATA(double, dy) + t * columns, layout, drop, t, columns);
        if (gamma != NULL)
            ref_norm_row_backward(dsum, ref_element(dgamma, 0), ref_element(dbeta, 0), g,
                                  SR_DATA(double, sum) + t * columns, SR_DATA(double, gamma),
                                  ref_element(mean, t), SR_DATA(double, rstd)[t], columns);
        add_gradient(dword, SR_DATA(int32_t, ids)[t], dsum);
        add_gradient(dposition, row_of(&p, layout->position, t), dsum);
        add_gradient(dtype, row_of(&k, NULL, t), dsum);
    }
    sr_free(scratch);
    return SR_OK;
}
