#include "core/batch/window.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/fill.h"

struct sr_window {
    sr_epoch *e;
    sr_pick *pick; /* (count) sequences, or pieces */
    int64_t count, updates;
    sr_cursor begin, end;
    pthread_mutex_t lock; /* of all below */
    bool arranged;
    sr_fill fill;
    int32_t refs;
};

/* ---- what it has ---- */

/* The epoch word of random keys: the number of the update; pieces differ in its top bits. */
static uint32_t key_of(const sr_window *w, int64_t part, int32_t piece) {
    uint32_t update = (uint32_t)(w->begin.drawn.updates + part);
    return piece > 1 ? update ^ (uint32_t)(piece - 1) << 24 : update;
}

static sr_status check(const sr_examples *x, const sr_window_opts *o) {
    if (o->updates < 1 || o->sequences < o->updates)
        return sr_fail(SR_EINVAL,
                       "order: %" PRId64 " sequences for %" PRId64
                       " updates; each needs at least one",
                       o->sequences, o->updates);
    if (o->max_len != 0 && (o->max_len < SR_EXAMPLES_LEAST || o->max_len > x->opts.max_len))
        return sr_fail(SR_EINVAL, "order: max_len is %d; must be %d..%d", o->max_len,
                       SR_EXAMPLES_LEAST, x->opts.max_len);
    for (int64_t i = 0; i < o->sequences; i++)
        if (o->uid[i] >= x->count)
            return sr_fail(SR_EINVAL,
                           "order: uid %" PRIu32 " is out of range; there are %" PRId64
                           " examples, from 0",
                           o->uid[i], x->count);
    return SR_OK;
}

static sr_status check_pieces(const sr_examples *x, const sr_window_opts *o) {
    for (int64_t i = 0; i < o->sequences; i++) {
        const sr_example *e = &x->example[o->uid[i]];
        if (e->b_tokens > 0)
            return sr_fail(SR_EINVAL,
                           "order: sequence %" PRIu32
                           " is a pair, and only single segments are cut into pieces; truncate, or "
                           "draw without nsp",
                           o->uid[i]);
        if (sr_example_pieces(e, o->max_len) > SR_WINDOW_PIECES)
            return sr_fail(SR_EINVAL,
                           "order: sequence %" PRIu32
                           " would be cut into more than %d pieces of %d tokens; raise the length",
                           o->uid[i], SR_WINDOW_PIECES, o->max_len);
    }
    return SR_OK;
}

static int64_t count_pieces(const sr_examples *x, const sr_window_opts *o) {
    int64_t count = 0;
    for (int64_t i = 0; i < o->sequences; i++)
        count += sr_example_pieces(&x->example[o->uid[i]], o->max_len);
    return count;
}

static void add_picks(sr_window *w, const sr_window_opts *o) {
    const sr_examples *x = w->e->examples;
    for (int64_t i = 0; i < o->sequences; i++) {
        sr_pick pick = {.examples = x, .uid = o->uid[i], .limit = o->max_len, .mask = o->mask};
        int32_t pieces = o->pieces ? sr_example_pieces(&x->example[pick.uid], o->max_len) : 1;
        for (int32_t k = 1; k <= pieces; k++) {
            pick.piece = pieces > 1 ? k : 0;
            w->pick[w->count++] = pick;
        }
    }
}

/* The sequence of an example's first piece carries its tokens before cutting. */
static void count_pick(sr_counters *drawn, const sr_pick *p) {
    drawn->sequences++;
    if (p->piece <= 1) drawn->raw_tokens += sr_example_length(&p->examples->example[p->uid]);
    drawn->real_tokens += sr_pick_length(p);
}

static sr_status fill_window(sr_window *w, const sr_window_opts *o) {
    const sr_examples *x = w->e->examples;
    SR_TRY(check(x, o));
    bool pieces = o->pieces && o->max_len > 0;
    if (pieces) SR_TRY(check_pieces(x, o));
    SR_TRY(sr_new(&w->pick, pieces ? count_pieces(x, o) : o->sequences));
    add_picks(w, o);
    w->end = w->begin;
    w->end.drawn.updates += w->updates;
    for (int64_t i = 0; i < w->count; i++) count_pick(&w->end.drawn, &w->pick[i]);
    return SR_OK;
}

/* ---- its updates ---- */

static sr_status arrange(sr_window *w, const sr_loader_opts *opts) {
    if (w->arranged) return SR_OK;
    sr_fill_opts how = {.updates = w->updates,
                        .rows = opts->micro * opts->examples.max_len,
                        .shares = opts->shares};
    uint16_t *length;
    SR_TRY(sr_new(&length, w->count));
    for (int64_t i = 0; i < w->count; i++) length[i] = (uint16_t)sr_pick_length(&w->pick[i]);
    sr_status st = sr_fill_solve(&w->fill, length, w->count, &how);
    sr_free(length);
    w->arranged = st == SR_OK;
    return st;
}

/* Appends the sequences of a batch, as a group. */
static sr_status add_batch(sr_order *o, const sr_window *w, sr_pick *room, int64_t batch) {
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++)
        if (w->fill.batch[i] == batch) room[n++] = w->pick[i];
    for (int64_t i = 0; i < n; i++) {
        room[i].epoch = key_of(w, batch % w->updates, room[i].piece);
        count_pick(&o->end.drawn, &room[i]);
    }
    SR_TRY(sr_order_add(o, room, n));
    return sr_order_rows(o, w->fill.rows[batch]);
}

static sr_status add_batches(sr_order *o, const sr_window *w, int64_t part) {
    sr_pick *room;
    SR_TRY(sr_order_keep(o, w->e));
    SR_TRY(sr_new(&room, w->count));
    sr_status st = SR_OK;
    for (int64_t b = part; st == SR_OK && b < w->fill.batches; b += w->updates)
        st = add_batch(o, w, room, b);
    sr_free(room);
    return st;
}

/* The totals before a part. */
static sr_cursor begin_of(const sr_window *w, int64_t part) {
    sr_cursor c = w->begin;
    c.drawn.updates += part;
    for (int64_t i = 0; i < w->count; i++)
        if (w->fill.batch[i] % w->updates < part) count_pick(&c.drawn, &w->pick[i]);
    return c;
}

sr_status sr_window_order(sr_order *out, sr_window *w, int64_t part, const sr_loader_opts *opts) {
    *out = (sr_order){.packs = true};
    pthread_mutex_lock(&w->lock);
    sr_status st = arrange(w, opts);
    pthread_mutex_unlock(&w->lock);
    SR_TRY(st);
    out->begin = out->end = begin_of(w, part);
    out->end.drawn.updates++;
    st = add_batches(out, w, part);
    if (st != SR_OK) sr_order_free(out);
    return st;
}

/* ---- new ---- */

sr_status sr_window_new(sr_window **out, sr_epoch *e, const sr_window_opts *opts) {
    *out = NULL;
    sr_window *w;
    SR_TRY(sr_new(&w, 1));
    *w = (sr_window){
        .e = sr_epoch_retain(e), .updates = opts->updates, .begin = opts->begin, .refs = 1};
    pthread_mutex_init(&w->lock, NULL);
    sr_status st = fill_window(w, opts);
    if (st != SR_OK) {
        sr_window_release(w);
        return st;
    }
    *out = w;
    return SR_OK;
}

sr_window *sr_window_retain(sr_window *w) {
    __atomic_add_fetch(&w->refs, 1, __ATOMIC_RELAXED);
    return w;
}

void sr_window_release(sr_window *w) {
    if (w == NULL || __atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    pthread_mutex_destroy(&w->lock);
    sr_fill_free(&w->fill);
    sr_epoch_release(w->e);
    sr_free(w->pick);
    sr_free(w);
}

sr_cursor sr_window_end(const sr_window *w) {
    return w->end;
}

int64_t sr_window_updates(const sr_window *w) {
    return w->updates;
}
