/* late.c - targets that are set when an update is delivered. */
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/batch.h"

static sr_status check_rows(const sr_batch *b, const sr_target *t, int64_t count,
                            const int32_t *rows) {
    const sr_layout *l = b->layout;
    int each = sr_rows_each(t->reads);
    int32_t before = 0;
    for (int64_t i = 0; i < count * each; i++) {
        int32_t owner = rows[i] >= 0 && rows[i] < l->rows ? l->owner[rows[i]] : -1;
        if (owner < 0)
            return sr_fail(SR_EINVAL,
                           "target '%s': row %d of item %" PRId64 " belongs to no sequence",
                           t->name, rows[i], i / each);
        if (owner < before || (i % each != 0 && owner != before))
            return sr_fail(SR_EINVAL,
                           "target '%s': row %d of item %" PRId64
                           " is out of order; items come sequence by sequence",
                           t->name, rows[i], i / each);
        before = owner;
    }
    return SR_OK;
}

/* A weight holds the items of its sequence until the update weighs them. */
static void count_items(sr_target *t, const sr_layout *l) {
    int each = sr_rows_each(t->reads);
    t->sequences = 0;
    for (int64_t i = 0, end; i < t->count; i = end) {
        int32_t owner = l->owner[t->rows[i * each]];
        for (end = i; end < t->count && l->owner[t->rows[end * each]] == owner;) end++;
        for (int64_t k = i; k < end; k++) t->weights[k] = (float)(end - i);
        t->sequences++;
    }
}

sr_status sr_batch_set_target(sr_batch *b, int target, int64_t count, const int32_t *rows,
                              const void *labels) {
    sr_target *t = &b->target[target];
    int32_t *own;
    if (!t->late) return sr_fail(SR_EINVAL, "target '%s' is made by the loader", t->name);
    SR_TRY(check_rows(b, t, count, rows));
    size_t n = (size_t)count, each = (size_t)sr_rows_each(t->reads), size;
    SR_TRY(sr_mul_size(&size, n, 2 * each + (size_t)t->columns + 1));
    SR_TRY(sr_new(&own, size));
    sr_free(t->own);
    t->own = own;
    t->count = count;
    t->rows = own;
    t->places = t->rows + n * each;
    t->labels = t->places + n * each;
    t->weights = (float *)((int32_t *)t->labels + n * (size_t)t->columns);
    if (n > 0) memcpy(t->rows, rows, n * each * sizeof *rows);
    if (n > 0) memcpy(t->labels, labels, n * (size_t)t->columns * sizeof(int32_t));
    count_items(t, b->layout);
    return SR_OK;
}
