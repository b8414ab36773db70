#include "core/batch/batch.h"

#include <inttypes.h>

#include "core/base/mem.h"

/* ---- the pieces of one block of memory ---- */

typedef struct room {
    char *at; /* NULL: only count */
    size_t used;
} room;

static void *take(room *r, size_t count, size_t size) {
    void *p = r->at != NULL ? r->at + r->used : NULL;
    r->used += (count * size + 63) & ~(size_t)63;
    return p;
}

static void take_target(room *r, sr_target *t, const char *name, size_t count) {
    t->name = name;
    t->rows = take(r, count, sizeof *t->rows);
    t->labels = take(r, count, sizeof *t->labels);
    t->places = take(r, count, sizeof *t->places);
    t->weights = take(r, count, sizeof *t->weights);
}

typedef struct shape {
    int32_t n;
    int64_t rows, most_masked;
    bool mlm;
    const char *head; /* name of the target of [CLS] rows, NULL: none */
} shape;

/* Sizes are bounded by T < 2^31, so that no product here can overflow. */
static void take_arrays(room *r, sr_batch *b, const shape *s) {
    b->ids = take(r, (size_t)s->rows, sizeof *b->ids);
    b->types = take(r, (size_t)s->rows, sizeof *b->types);
    b->targets = 0;
    if (s->mlm) take_target(r, &b->target[b->targets++], "mlm", (size_t)s->most_masked);
    if (s->head != NULL) take_target(r, &b->target[b->targets++], s->head, (size_t)s->n);
}

/* ---- one batch ---- */

static sr_status measure(shape *s, const sr_pick *pick, const sr_masker *masker, int32_t stride,
                         int64_t rows) {
    int64_t end = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const sr_examples *t = pick[i].examples;
        if (pick[i].uid >= t->count)
            return sr_fail(SR_EINVAL,
                           "batch: uid %" PRIu32 " is not below the %" PRId64 " examples",
                           pick[i].uid, t->count);
        int32_t len = sr_example_length(&t->example[pick[i].uid]);
        if (stride > 0 && len > stride)
            return sr_fail(SR_EINVAL, "batch: uid %" PRIu32 " has %d tokens, a row only %d",
                           pick[i].uid, len, stride);
        end = stride > 0 ? (int64_t)(i + 1) * stride : end + len;
        if (masker != NULL) s->most_masked += sr_mask_limit(masker, len);
    }
    if (rows < end) rows = end;
    s->rows = (rows + SR_ROWS_UNIT - 1) / SR_ROWS_UNIT * SR_ROWS_UNIT;
    if (s->rows > INT32_MAX / 8)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " rows are too many; use fewer packs a batch",
                       s->rows);
    s->mlm = masker != NULL;
    s->head = pick[0].examples->nsp ? "nsp" : pick[0].examples->label != NULL ? "label" : NULL;
    return SR_OK;
}

/* The layout, from arrays that live for this call: start, len, uid, epoch. */
static sr_status lay_out(sr_batch *b, const sr_pick *pick, const shape *s, int32_t stride,
                         uint64_t seed) {
    int32_t *start;
    SR_TRY(sr_new(&start, (size_t)s->n * 4));
    int32_t *len = start + s->n, at = 0;
    uint32_t *uid = (uint32_t *)len + s->n, *epoch = uid + s->n;
    for (int32_t i = 0; i < s->n; i++) {
        uid[i] = pick[i].uid;
        epoch[i] = pick[i].epoch;
        len[i] = sr_example_length(&pick[i].examples->example[uid[i]]);
        start[i] = stride > 0 ? i * stride : at;
        at += len[i];
    }
    sr_status st = sr_layout_new(&b->layout, s->n, start, len, uid, epoch, s->rows, seed);
    sr_free(start);
    return st;
}

/* Masks sequence i and appends its rows; a row's weight holds m_s until sr_update_weigh(). */
static void mask_sequence(sr_batch *b, int32_t i, const sr_masker *masker, int32_t *scratch) {
    const sr_layout *l = b->layout;
    sr_target *t = &b->target[0];
    int32_t *rows = t->rows + t->count, n = 0, start = l->start[i];
    sr_mask_draw(rows, t->labels + t->count, &n, b->ids + start, l->len[i], l->uid[i], l->epoch[i],
                 masker, scratch);
    for (int32_t k = 0; k < n; k++) {
        rows[k] += start;
        t->weights[t->count + k] = (float)n;
    }
    t->count += n;
    b->masked += n;
}

static void add_head(sr_batch *b, int32_t i, const sr_pick *pick) {
    sr_target *t = &b->target[b->targets - 1];
    const sr_examples *x = pick->examples;
    t->rows[t->count] = b->layout->start[i];
    t->labels[t->count] =
        x->nsp ? x->example[pick->uid].flags & SR_EXAMPLE_RANDOM : x->label[pick->uid];
    t->count++;
}

static sr_status collate(sr_batch *b, const sr_dataset *d, const sr_masker *masker,
                         const sr_pick *pick, const shape *s) {
    const sr_layout *l = b->layout;
    int32_t *scratch, pad = sr_vocab_special(d->vocab, SR_TOKEN_PAD);
    SR_TRY(sr_new(&scratch, l->longest));
    sr_status st = SR_OK;
    for (int64_t i = 0; i < s->rows; i++) b->ids[i] = pad;
    for (int32_t i = 0; st == SR_OK && i < s->n; i++) {
        int32_t at = l->start[i];
        st = sr_examples_sequence(pick[i].examples, d, pick[i].uid, b->ids + at, b->types + at);
        if (st == SR_OK && masker != NULL) mask_sequence(b, i, masker, scratch);
        if (st == SR_OK && s->head != NULL) add_head(b, i, &pick[i]);
    }
    sr_free(scratch);
    b->sequences = s->n;
    b->tokens = l->tokens;
    b->slots = s->rows;
    return st;
}

/* The rows that targets need, and where each target finds its own among them. */
static sr_status find_last(sr_batch *b) {
    if (b->targets == 0) return SR_OK;
    uint8_t *keep = NULL;
    int32_t *place = NULL;
    sr_status st;
    SR_GO(done, st, sr_new(&keep, b->slots));
    SR_GO(done, st, sr_new(&place, b->slots));
    for (int k = 0; k < b->targets; k++)
        for (int64_t i = 0; i < b->target[k].count; i++) keep[b->target[k].rows[i]] = 1;
    SR_GO(done, st, sr_layout_shorten(&b->last, &b->last_rows, b->layout, keep));
    for (int64_t i = 0; i < b->last->rows; i++) place[b->last_rows[i]] = (int32_t)i;
    for (int k = 0; k < b->targets; k++) {
        sr_target *t = &b->target[k];
        for (int64_t i = 0; i < t->count; i++) t->places[i] = place[t->rows[i]];
    }
done:
    sr_free(keep);
    sr_free(place);
    return st;
}

sr_status sr_batch_make(sr_batch **out, const sr_dataset *d, const sr_masker *masker,
                        const sr_pick *pick, int32_t n, int32_t stride, int64_t rows,
                        uint64_t seed) {
    *out = NULL;
    if (n < 1) return sr_fail(SR_EINVAL, "batch: a batch needs at least one sequence");
    shape s = {.n = n};
    SR_TRY(measure(&s, pick, masker, stride, rows));
    room r = {0};
    sr_batch counted = {0}, *b;
    take(&r, 1, sizeof *b);
    take_arrays(&r, &counted, &s);
    SR_TRY(sr_alloc((void **)&b, r.used, 1)); /* zeroed: types of slack are 0 */
    r = (room){.at = (char *)b};
    take(&r, 1, sizeof *b);
    take_arrays(&r, b, &s);
    sr_status st = lay_out(b, pick, &s, stride, seed);
    if (st == SR_OK) st = collate(b, d, masker, pick, &s);
    if (st == SR_OK) st = find_last(b);
    if (st != SR_OK) {
        sr_batch_free(b);
        return st;
    }
    *out = b;
    return SR_OK;
}

void sr_batch_free(sr_batch *b) {
    if (b == NULL) return;
    sr_layout_release(b->layout);
    sr_layout_release(b->last);
    sr_free(b->last_rows);
    sr_free(b);
}
