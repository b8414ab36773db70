/* embed.c - three tables, layer norm, dropout.
 *
 *   sum = word[id] + position[p] + type[k]      y = dropout(norm(sum))
 */
#include <inttypes.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

static sr_status check_entry(const char *what, int64_t t, int64_t entry, const sr_tensor *table) {
    if (entry >= 0 && entry < table->shape[0]) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "embed: row %" PRId64 " has %s %" PRId64 ", but the table has %" PRId64
                   " rows, counted from 0",
                   t, what, entry, table->shape[0]);
}

static const double *row_of(const sr_tensor *table, int64_t entry) {
    return SR_DATA(double, table) + entry * table->shape[1];
}

sr_status ref_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                    const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                    const sr_tensor *beta, const sr_layout *layout, double eps, sr_dropout drop) {
    int64_t columns = word->shape[1];
    for (int64_t t = 0; t < layout->rows; t++) {
        int32_t id = SR_DATA(int32_t, ids)[t], kind = SR_DATA(int32_t, types)[t];
        int32_t place = layout->position[t];
        SR_TRY(check_entry("id", t, id, word));
        SR_TRY(check_entry("type", t, kind, type));
        SR_TRY(check_entry("position", t, place, position));
        double *to = SR_DATA(double, sum) + t * columns, *out = SR_DATA(double, y) + t * columns;
        for (int64_t h = 0; h < columns; h++)
            to[h] = row_of(word, id)[h] + row_of(position, place)[h] + row_of(type, kind)[h];
        ref_norm_row(out, SR_DATA(double, mean) + t, SR_DATA(double, rstd) + t, to,
                     SR_DATA(double, gamma), SR_DATA(double, beta), columns, eps);
        for (int64_t h = 0; h < columns; h++) out[h] *= ref_drop_row(layout, drop, t, h);
    }
    return SR_OK;
}

static void add_to(sr_tensor *table, int64_t entry, const double *x, int64_t columns) {
    if (table == NULL) return;
    double *row = SR_DATA(double, table) + entry * columns;
    for (int64_t h = 0; h < columns; h++) row[h] += x[h];
}

sr_status ref_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop) {
    int64_t columns = dy->shape[1];
    double *scratch;
    SR_TRY(sr_new(&scratch, 2 * columns));
    double *dsum = scratch, *kept = scratch + columns;
    for (int64_t t = 0; t < layout->rows; t++) {
        if (layout->owner[t] < 0) continue;
        for (int64_t h = 0; h < columns; h++)
            kept[h] = SR_DATA(double, dy)[t * columns + h] * ref_drop_row(layout, drop, t, h);
        ref_norm_row_backward(dsum, dgamma != NULL ? SR_DATA(double, dgamma) : NULL,
                              dbeta != NULL ? SR_DATA(double, dbeta) : NULL, kept,
                              SR_DATA(double, sum) + t * columns, SR_DATA(double, gamma),
                              SR_DATA(double, mean)[t], SR_DATA(double, rstd)[t], columns);
        add_to(dword, SR_DATA(int32_t, ids)[t], dsum, columns);
        add_to(dposition, layout->position[t], dsum, columns);
        add_to(dtype, SR_DATA(int32_t, types)[t], dsum, columns);
    }
    sr_free(scratch);
    return SR_OK;
}
