#include "core/batch/batch.h"

#include <inttypes.h>
#include <string.h>

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

typedef struct shape {
    int32_t n;
    int64_t rows;
    const sr_collators *all;
    int64_t *items; /* maximum per target */
    bool sources;   /* the data set has several */
} shape;

static void take_target(room *r, sr_target *t, const sr_collator *c, int64_t items) {
    size_t n = (size_t)items, rows = n * (size_t)sr_rows_each(c->reads);
    size_t letters = strlen(c->name) + 1;
    char *name = take(r, letters, 1); /* an update may outlive its loader's collators */
    if (name != NULL) memcpy(name, c->name, letters);
    *t = (sr_target){.name = name,
                     .reads = c->reads,
                     .type = c->type,
                     .mean = c->mean,
                     .columns = c->columns,
                     .deferred = c->kind->deferred};
    t->rows = take(r, rows, sizeof *t->rows);
    t->places = take(r, rows, sizeof *t->places);
    t->labels = take(r, n * (size_t)c->columns, sizeof(int32_t));
    t->weights = take(r, n, sizeof *t->weights);
}

/* Sizes are bounded by T < 2^28 and K <= 2^16: no product here can overflow. */
static void take_arrays(room *r, sr_batch *b, const shape *s) {
    sr_target counted;
    b->target = take(r, (size_t)s->all->count, sizeof *b->target);
    b->ids = take(r, (size_t)s->rows, sizeof *b->ids);
    b->types = take(r, (size_t)s->rows, sizeof *b->types);
    if (s->sources) b->source = take(r, (size_t)s->n, sizeof *b->source);
    if (s->all->keep_ids) b->original_ids = take(r, (size_t)s->rows, sizeof *b->original_ids);
    b->targets = s->all->count;
    for (int k = 0; k < b->targets; k++)
        take_target(r, r->at != NULL ? &b->target[k] : &counted, &s->all->collator[k], s->items[k]);
}

/* ---- one batch ---- */

static sr_status measure_sequence(shape *s, int64_t *end, const sr_pick *pick, int32_t i,
                                  int32_t stride) {
    const sr_examples *t = pick->examples;
    if (pick->uid >= t->count)
        return sr_fail(SR_EINVAL,
                       "batch: uid %" PRIu32 " is out of range; there are %" PRId64 " examples",
                       pick->uid, t->count);
    int32_t len = sr_pick_length(pick);
    if (stride > 0 && len > stride)
        return sr_fail(SR_EINVAL, "batch: uid %" PRIu32 " has %d tokens, but a row has %d",
                       pick->uid, len, stride);
    *end = stride > 0 ? (int64_t)(i + 1) * stride : *end + len;
    for (int k = 0; k < s->all->count; k++) {
        const sr_collator *c = &s->all->collator[k];
        s->items[k] += c->kind->measure(c, len);
    }
    return SR_OK;
}

static sr_status measure(shape *s, const sr_pick *pick, int32_t stride, int64_t rows) {
    int64_t end = 0;
    for (int32_t i = 0; i < s->n; i++) SR_TRY(measure_sequence(s, &end, &pick[i], i, stride));
    if (rows < end) rows = end;
    s->rows = (rows + SR_ROWS_UNIT - 1) / SR_ROWS_UNIT * SR_ROWS_UNIT;
    if (s->rows > INT32_MAX / 8)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " rows are too many; use fewer packs per batch",
                       s->rows);
    return SR_OK;
}

/* The layout, from arrays that are valid during this call: start, len, uid, epoch. */
static sr_status lay_out(sr_batch *b, const sr_pick *pick, const shape *s, int32_t stride,
                         uint64_t seed) {
    int32_t *start;
    SR_TRY(sr_new(&start, (size_t)s->n * 4));
    int32_t *len = start + s->n, at = 0;
    uint32_t *uid = (uint32_t *)len + s->n, *epoch = uid + s->n;
    for (int32_t i = 0; i < s->n; i++) {
        uid[i] = pick[i].uid;
        epoch[i] = pick[i].epoch;
        len[i] = sr_pick_length(&pick[i]);
        start[i] = stride > 0 ? i * stride : at;
        at += len[i];
    }
    sr_status st = sr_layout_new(&b->layout, s->n, start, len, uid, epoch, s->rows, seed);
    sr_free(start);
    return st;
}

/* Runs one collator on one sequence.  Until the update sets the weights, a weight has the number of
 * items of its sequence. */
static sr_status fill_target(sr_batch *b, sr_target *t, const sr_collator *c, const sr_site *site) {
    int64_t before = t->count;
    SR_TRY(c->kind->fill(t, c, site));
    int64_t items = t->count - before;
    for (int64_t i = before; i < t->count; i++) t->weights[i] = (float)items;
    t->sequences += items > 0;
    if (c->masks) b->masked += items;
    return SR_OK;
}

static sr_status fill_sequence(sr_batch *b, const sr_site *site, const sr_collators *all) {
    SR_TRY(sr_example_sequence(&site->example, site->data, site->ids, b->types + site->start));
    if (b->original_ids != NULL)
        memcpy(b->original_ids + site->start, site->ids, (size_t)site->len * sizeof *site->ids);
    for (int k = 0; k < all->count; k++) {
        const sr_collator *c = &all->collator[k];
        if (!c->kind->deferred) SR_TRY(fill_target(b, &b->target[k], c, site));
    }
    return SR_OK;
}

/* The place of a sequence, with scratch of `longest` tokens, flags and roles. */
static sr_site site_of(const sr_dataset *d, const sr_pick *pick, int32_t *ids, int32_t *scratch,
                       int64_t longest) {
    uint8_t *flags = (uint8_t *)(scratch + longest);
    return (sr_site){.data = d,
                     .examples = pick->examples,
                     .example = sr_pick_example(pick),
                     .uid = pick->uid,
                     .epoch = pick->epoch,
                     .mask = pick->mask,
                     .stage = pick->stage,
                     .len = sr_pick_length(pick),
                     .ids = ids,
                     .scratch = scratch,
                     .flags = flags,
                     .roles = flags + longest};
}

static sr_status collate(sr_batch *b, const sr_dataset *d, const sr_pick *pick, const shape *s) {
    const sr_layout *l = b->layout;
    int32_t *scratch, pad = sr_tokenizer_special(d->tokenizer, SR_TOKEN_PAD);
    if (pad < 0) pad = 0;
    SR_TRY(sr_new(&scratch, (size_t)l->longest * 2));
    sr_status st = SR_OK;
    for (int64_t i = 0; i < s->rows; i++) b->ids[i] = pad;
    for (int64_t i = 0; b->original_ids != NULL && i < s->rows; i++) b->original_ids[i] = pad;
    for (int32_t i = 0; st == SR_OK && i < s->n; i++) {
        sr_site site = site_of(d, &pick[i], b->ids + l->start[i], scratch, l->longest);
        site.start = l->start[i];
        if (s->sources) b->source[i] = sr_dataset_source(d, sr_example_a(&site.example));
        st = fill_sequence(b, &site, s->all);
    }
    sr_free(scratch);
    b->sequences = s->n;
    b->tokens = l->tokens;
    b->slots = s->rows;
    return st;
}

/* ---- the rows that targets need ---- */

/* Marks the rows that a target reads; for spans, all rows of its sequences. */
static void mark_rows(uint8_t *keep, const sr_batch *b, const sr_target *t) {
    const sr_layout *l = b->layout;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->reads != SR_READS_SPANS) {
            keep[t->rows[i]] = 1;
            continue;
        }
        int32_t s = l->owner[t->rows[2 * i]];
        memset(keep + l->start[s], 1, (size_t)l->len[s]);
    }
}

/* The rows that targets read, and the position of each target's rows among them. */
sr_status sr_batch_find_last(sr_batch *b) {
    if (b->targets == 0) return SR_OK;
    uint8_t *keep = NULL;
    int32_t *place = NULL, *rows = NULL;
    sr_layout *last = NULL;
    sr_status st;
    SR_GO(done, st, sr_new(&keep, b->slots));
    SR_GO(done, st, sr_new(&place, b->slots));
    for (int k = 0; k < b->targets; k++) mark_rows(keep, b, &b->target[k]);
    SR_GO(done, st, sr_layout_shorten(&last, &rows, b->layout, keep));
    for (int64_t i = 0; i < last->rows; i++) place[rows[i]] = (int32_t)i;
    for (int k = 0; k < b->targets; k++) {
        sr_target *t = &b->target[k];
        int64_t n = t->count * sr_rows_each(t->reads);
        for (int64_t i = 0; i < n; i++) t->places[i] = place[t->rows[i]];
    }
    sr_layout_release(b->last);
    sr_free(b->last_rows);
    b->last = last;
    b->last_rows = rows;
done:
    sr_free(keep);
    sr_free(place);
    return st;
}

/* ---- making ---- */

/* One block for the batch and its arrays: first counted, then allocated. */
static sr_status allocate(sr_batch **out, const shape *s) {
    room r = {0};
    sr_batch counted = {0}, *b;
    take(&r, 1, sizeof *b);
    take_arrays(&r, &counted, s);
    SR_TRY(sr_alloc((void **)&b, r.used, 1)); /* zeroed, since types of slack are 0 */
    r = (room){.at = (char *)b};
    take(&r, 1, sizeof *b);
    take_arrays(&r, b, s);
    *out = b;
    return SR_OK;
}

static sr_status make(sr_batch **out, const sr_dataset *d, const sr_pick *pick, shape *s,
                      int32_t stride, int64_t rows, uint64_t seed) {
    SR_TRY(measure(s, pick, stride, rows));
    sr_batch *b;
    SR_TRY(allocate(&b, s));
    sr_status st = lay_out(b, pick, s, stride, seed);
    if (st == SR_OK) st = collate(b, d, pick, s);
    if (st == SR_OK && !s->all->deferred) st = sr_batch_find_last(b);
    return SR_GIVE(out, b, st, sr_batch_free);
}

sr_status sr_batch_make(sr_batch **out, const sr_dataset *d, const sr_collators *collators,
                        const sr_pick *pick, int32_t n, int32_t stride, int64_t rows,
                        uint64_t seed) {
    *out = NULL;
    if (n < 1) return sr_fail(SR_EINVAL, "batch: a batch needs at least one sequence");
    shape s = {.n = n, .all = collators, .sources = d->sources > 1};
    SR_TRY(sr_new(&s.items, collators->count));
    sr_status st = make(out, d, pick, &s, stride, rows, seed);
    sr_free(s.items);
    return st;
}

void sr_batch_free(sr_batch *b) {
    if (b == NULL) return;
    for (int k = 0; k < b->targets; k++) sr_free(b->target[k].own);
    sr_layout_release(b->layout);
    sr_layout_release(b->last);
    sr_free(b->last_rows);
    sr_free(b);
}

/* ---- deferred targets ---- */

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
static void count_per_sequence(sr_target *t, const sr_layout *l) {
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
    if (!t->deferred) return sr_fail(SR_EINVAL, "target '%s' is made by the loader", t->name);
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
    count_per_sequence(t, b->layout);
    return SR_OK;
}

/* ---- counting without making ---- */

/* Buffers for one sequence of at most `longest` tokens. */
typedef struct counter {
    int32_t *ids; /* and types, scratch, flags with roles */
    int32_t *rows, *labels;
    int32_t longest;
} counter;

static sr_status open_counter(counter *k, const sr_collators *all, const sr_pick *pick, int64_t n) {
    int64_t rows = 0, labels = 0;
    k->longest = 1;
    for (int64_t i = 0; i < n; i++) {
        int32_t len = sr_pick_length(&pick[i]);
        if (len > k->longest) k->longest = len;
    }
    for (int c = 0; c < all->count; c++) {
        const sr_collator *one = &all->collator[c];
        int64_t items = one->kind->measure(one, k->longest);
        if (items * 2 > rows) rows = items * 2;
        if (items * one->columns > labels) labels = items * one->columns;
    }
    SR_TRY(sr_new(&k->ids, (size_t)k->longest * 4));
    SR_TRY(sr_new(&k->rows, rows));
    return sr_new(&k->labels, labels);
}

/* The items of one target; the tokens are read once, when a collator needs them. */
static sr_status count_items(int64_t *items, bool *read, const counter *k, const sr_collator *c,
                             const sr_site *site) {
    *items = c->kind->count != NULL ? c->kind->count(c, site) : -1;
    if (*items >= 0) return SR_OK;
    if (c->kind->tokens && !*read)
        SR_TRY(sr_example_sequence(&site->example, site->data, site->ids, k->ids + k->longest));
    *read |= c->kind->tokens;
    sr_target t = {.name = c->name,
                   .reads = c->reads,
                   .type = c->type,
                   .columns = c->columns,
                   .rows = k->rows,
                   .labels = k->labels};
    SR_TRY(c->kind->fill(&t, c, site));
    *items = t.count;
    return SR_OK;
}

static sr_status count_sequence(sr_target_count *count, int64_t *masked, const counter *k,
                                const sr_collators *all, const sr_site *site) {
    bool read = false;
    for (int c = 0; c < all->count; c++) {
        int64_t items;
        if (all->collator[c].kind->deferred) continue;
        SR_TRY(count_items(&items, &read, k, &all->collator[c], site));
        count[c].items += items;
        count[c].sequences += items > 0;
        if (all->collator[c].masks) *masked += items;
    }
    return SR_OK;
}

sr_status sr_batch_count_targets(sr_target_count *count, int64_t *masked, const sr_dataset *d,
                                 const sr_collators *collators, const sr_pick *pick, int64_t n) {
    counter k = {0};
    sr_status st = open_counter(&k, collators, pick, n);
    for (int64_t i = 0; st == SR_OK && i < n; i++) {
        sr_site site = site_of(d, &pick[i], k.ids, k.ids + 2 * (int64_t)k.longest, k.longest);
        st = count_sequence(count, masked, &k, collators, &site);
    }
    sr_free(k.ids);
    sr_free(k.rows);
    sr_free(k.labels);
    return st;
}
