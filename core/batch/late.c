/* late.c - targets that are set when an update is delivered. */
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/batch.h"

/* ---- the collator ---- */

static sr_status late_open(sr_collator *c, const sr_dataset *d, const sr_target_opts *o) {
    (void)d;
    bool real = o->type != NULL && strcmp(o->type, "f32") == 0;
    if (!real && o->type != NULL && strcmp(o->type, "i32") != 0)
        return sr_fail(SR_EINVAL, "target '%s': type '%s' must be i32 or f32", c->name, o->type);
    c->type = real ? SR_LABEL_F32 : SR_LABEL_I32;
    c->columns = o->columns > 0 ? o->columns : 1;
    if (c->reads != SR_READS_SPANS) return SR_OK;
    return sr_fail(SR_EINVAL,
                   "target '%s': spans come from a column; a function makes rows or "
                   "sequences",
                   c->name);
}

static int64_t late_measure(const sr_collator *c, int32_t len) {
    (void)c;
    (void)len;
    return 0;
}

const sr_collator_kind sr_collate_late = {
    .name = "late", .open = late_open, .measure = late_measure, .late = true};

/* ---- setting ---- */

static sr_status check_rows(const sr_batch *b, const sr_target *t, int64_t count,
                            const int32_t *rows) {
    const sr_layout *l = b->layout;
    int32_t before = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t owner = rows[i] >= 0 && rows[i] < l->rows ? l->owner[rows[i]] : -1;
        if (owner < 0)
            return sr_fail(
                SR_EINVAL,
                "target '%s': row %d of item %" PRId64
                " is in no sequence; rows count from 0, and those after the last are padding",
                t->name, rows[i], i + 1);
        if (owner < before)
            return sr_fail(SR_EINVAL,
                           "target '%s': row %d of item %" PRId64
                           " is out of order; items must come sequence by sequence",
                           t->name, rows[i], i + 1);
        before = owner;
    }
    return SR_OK;
}

/* Until the update sets the weights, a weight has the number of items of its sequence. */
static void count_items(sr_target *t, const sr_layout *l) {
    t->sequences = 0;
    for (int64_t i = 0, end; i < t->count; i = end) {
        int32_t owner = l->owner[t->rows[i]];
        for (end = i; end < t->count && l->owner[t->rows[end]] == owner;) end++;
        for (int64_t k = i; k < end; k++) t->weights[k] = (float)(end - i);
        t->sequences++;
    }
}

sr_status sr_batch_set_target(sr_batch *b, int target, int64_t count, const int32_t *rows,
                              const void *labels) {
    sr_target *t = &b->target[target];
    if (!t->late) return sr_fail(SR_EINVAL, "target '%s' is made by the loader", t->name);
    SR_TRY(check_rows(b, t, count, rows));
    size_t n = (size_t)count, columns = (size_t)t->columns, size;
    int32_t *own;
    SR_TRY(sr_mul_size(&size, n, columns + 3));
    SR_TRY(sr_new(&own, size));
    sr_free(t->own);
    t->own = own;
    t->count = count;
    t->rows = own;
    t->places = own + n;
    t->weights = (float *)(own + 2 * n);
    t->labels = own + 3 * n;
    if (n > 0) memcpy(t->rows, rows, n * sizeof *rows);
    if (n > 0) memcpy(t->labels, labels, n * columns * sizeof *rows);
    count_items(t, b->layout);
    return SR_OK;
}
