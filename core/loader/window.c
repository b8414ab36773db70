#include "core/loader/window.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "core/base/mem.h"

typedef struct packer {
    const uint16_t *length;
    int64_t n;
    int64_t *rank; /* (n) longest first */
    int64_t *room; /* (batches) rows that are left */
    int64_t *heap; /* (heaped) batches, the one with most room first */
    int64_t *left; /* (updates) sequences that an update still takes */
    int64_t updates, heaped;
    sr_window_packing *out;
} packer;

/* ---- by length ---- */

/* A counting sort, stable, longest first. */
static sr_status rank_lengths(packer *p) {
    int64_t *first, at = 0;
    SR_TRY(sr_new(&p->rank, p->n));
    SR_TRY(sr_new(&first, UINT16_MAX + 1));
    for (int64_t i = 0; i < p->n; i++) first[p->length[i]]++;
    for (int64_t len = UINT16_MAX; len >= 0; len--) {
        int64_t count = first[len];
        first[len] = at;
        at += count;
    }
    for (int64_t i = 0; i < p->n; i++) p->rank[first[p->length[i]]++] = i;
    sr_free(first);
    return SR_OK;
}

/* ---- the batch with most room ---- */

static bool emptier(const packer *p, int64_t a, int64_t b) {
    return p->room[a] != p->room[b] ? p->room[a] > p->room[b] : a < b;
}

/* Moves the top to its place. */
static void sift(packer *p) {
    int64_t *h = p->heap, n = p->heaped, top = h[0], at = 0;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && emptier(p, h[child + 1], h[child])) child++;
        if (!emptier(p, h[child], top)) break;
        h[at] = h[child];
    }
    h[at] = top;
}

static int64_t *left_of(const packer *p, int64_t batch) {
    return &p->left[batch % p->updates];
}

/* The batch with most room whose update takes another sequence; -1 if there is none. */
static int64_t roomiest(packer *p) {
    while (p->heaped > 0 && *left_of(p, p->heap[0]) == 0) {
        p->heap[0] = p->heap[--p->heaped];
        if (p->heaped > 0) sift(p);
    }
    return p->heaped > 0 ? p->heap[0] : -1;
}

/* The batch with the least room that is enough; -1 if there is none. */
static int64_t tightest(const packer *p, int64_t len) {
    int64_t best = -1, least = INT64_MAX;
    for (int64_t b = 0; b < p->out->batches; b++)
        if (p->room[b] >= len && p->room[b]<least && * left_of(p, b)> 0)
            best = b, least = p->room[b];
    return best;
}

/* ---- one number of tiles ---- */

static void begin(packer *p) {
    sr_window_packing *o = p->out;
    p->heaped = o->batches;
    for (int64_t b = 0; b < o->batches; b++) {
        o->rows[b] = (o->tiles / o->batches + (b < o->tiles % o->batches)) * SR_ROWS_UNIT;
        p->room[b] = o->rows[b];
        p->heap[b] = b; /* a heap: larger ones come first */
    }
    for (int64_t u = 0; u < p->updates; u++)
        p->left[u] = p->n / p->updates + (u < p->n % p->updates);
}

static void put(packer *p, int64_t s, int64_t batch) {
    p->room[batch] -= p->length[s];
    p->out->batch[s] = (int32_t)batch;
    --*left_of(p, batch);
}

static bool place_all(packer *p) {
    int64_t spread = p->n - p->n / 5, i = 0;
    if (spread < p->out->batches) spread = p->out->batches; /* so that none stays empty */
    begin(p);
    for (; i < spread; i++) {
        int64_t s = p->rank[i], b = roomiest(p);
        if (b < 0 || p->room[b] < p->length[s]) return false;
        put(p, s, b);
        sift(p);
    }
    for (; i < p->n; i++) {
        int64_t b = tightest(p, p->length[p->rank[i]]);
        if (b < 0) return false;
        put(p, p->rank[i], b);
    }
    for (int64_t b = 0; b < p->out->batches; b++)
        if (p->room[b] == p->out->rows[b]) return false;
    return true;
}

/* ---- batches and tiles ---- */

static int64_t up(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit;
}

static sr_status set_batches(packer *p, int64_t each, const sr_window_pack_opts *o) {
    int64_t most = p->n / o->updates, shares = o->shares < most ? o->shares : most;
    if (shares > 0) each = up(each, shares) * shares;
    if (each > most) each = most;
    p->out->batches = each * o->updates;
    sr_free(p->out->rows);
    sr_free(p->room);
    p->out->rows = p->room = NULL;
    SR_TRY(sr_new(&p->out->rows, p->out->batches));
    SR_TRY(sr_new(&p->room, p->out->batches * 2 + p->updates));
    p->heap = p->room + p->out->batches;
    p->left = p->heap + p->out->batches;
    p->out->tiles = p->out->bound > p->out->batches ? p->out->bound : p->out->batches;
    return SR_OK;
}

/* Whether batches of this many tiles have too many rows, and more batches are possible. */
static bool too_large(const packer *p, const sr_window_pack_opts *o) {
    const sr_window_packing *out = p->out;
    return o->rows > 0 && up(out->tiles, out->batches) * SR_ROWS_UNIT > o->rows &&
           out->batches + o->updates <= p->n;
}

static sr_status solve(packer *p, const sr_window_pack_opts *o) {
    sr_window_packing *out = p->out;
    int64_t tokens = 0, most = o->rows > 0 ? o->rows / SR_ROWS_UNIT : INT64_MAX;
    for (int64_t i = 0; i < p->n; i++) tokens += p->length[i];
    out->bound = up(tokens, SR_ROWS_UNIT);
    if (most < 1) most = 1;
    SR_TRY(sr_new(&out->batch, p->n));
    SR_TRY(rank_lengths(p));
    SR_TRY(set_batches(p, o->rows > 0 ? up(up(out->bound, most), o->updates) : 1, o));
    while (!place_all(p)) {
        out->tiles += 1 + out->tiles / 1024;
        if (!too_large(p, o)) continue;
        SR_TRY(set_batches(p, out->batches / o->updates + 1, o));
    }
    return SR_OK;
}

/* Removes the tiles that no sequence uses. */
static void trim(packer *p) {
    sr_window_packing *o = p->out;
    o->tiles = 0;
    for (int64_t b = 0; b < o->batches; b++) {
        int64_t tiles = up(o->rows[b] - p->room[b], SR_ROWS_UNIT);
        o->tiles += tiles;
        o->rows[b] = tiles * SR_ROWS_UNIT;
    }
}

sr_status sr_window_pack(sr_window_packing *out, const uint16_t *length, int64_t n,
                         const sr_window_pack_opts *opts) {
    *out = (sr_window_packing){0};
    if (n < 1 || opts->updates < 1 || n < opts->updates)
        return sr_fail(SR_EINVAL,
                       "batch: %" PRId64 " sequences are too few for a window of %" PRId64
                       " updates",
                       n, opts->updates);
    packer p = {.length = length, .n = n, .updates = opts->updates, .out = out};
    sr_status st = solve(&p, opts);
    if (st == SR_OK) trim(&p);
    sr_free(p.room);
    sr_free(p.rank);
    if (st != SR_OK) sr_window_packing_free(out);
    return st;
}

void sr_window_packing_free(sr_window_packing *p) {
    sr_free(p->batch);
    sr_free(p->rows);
    *p = (sr_window_packing){0};
}

/* ---- the window ---- */

struct sr_window {
    sr_epoch *e;
    sr_pick *pick; /* (count) sequences, or pieces */
    int64_t count, updates;
    sr_cursor begin, end;
    pthread_mutex_t lock; /* of all below */
    bool arranged;
    sr_window_packing packing;
    int32_t refs;
};

/* ---- its sequences ---- */

/* The epoch word of random keys: the number of the update; pieces differ in its top bits. */
static uint32_t key_of(const sr_window *w, int64_t index, int32_t piece) {
    uint32_t update = (uint32_t)(w->begin.drawn.updates + index);
    return piece > 1 ? update ^ (uint32_t)(piece - 1) << 24 : update;
}

static sr_status check(const sr_examples *x, const sr_window_opts *o) {
    if (o->updates < 1 || o->sequences < o->updates)
        return sr_fail(SR_EINVAL,
                       "order: %" PRId64 " sequences for %" PRId64
                       " updates; each needs at least one",
                       o->sequences, o->updates);
    return sr_order_check(x, o->uid, o->sequences, o->max_len);
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

/* The raw tokens of an example that is cut into pieces are counted once, with the first. */
static void count_pick(sr_counters *drawn, const sr_pick *p) {
    drawn->sequences++;
    if (p->piece <= 1) drawn->raw_tokens += sr_example_length(&p->examples->example[p->uid]);
    drawn->real_tokens += sr_pick_length(p);
}

static sr_status add_sequences(sr_window *w, const sr_window_opts *o) {
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
    sr_window_pack_opts how = {.updates = w->updates,
                               .rows = opts->micro * opts->examples.max_len,
                               .shares = opts->shares};
    uint16_t *length;
    SR_TRY(sr_new(&length, w->count));
    for (int64_t i = 0; i < w->count; i++) length[i] = (uint16_t)sr_pick_length(&w->pick[i]);
    sr_status st = sr_window_pack(&w->packing, length, w->count, &how);
    sr_free(length);
    w->arranged = st == SR_OK;
    return st;
}

/* Appends the sequences of a batch, as a group. */
static sr_status add_batch(sr_order *o, const sr_window *w, sr_pick *room, int64_t batch) {
    int64_t n = 0;
    for (int64_t i = 0; i < w->count; i++)
        if (w->packing.batch[i] == batch) room[n++] = w->pick[i];
    for (int64_t i = 0; i < n; i++) {
        room[i].epoch = key_of(w, batch % w->updates, room[i].piece);
        count_pick(&o->end.drawn, &room[i]);
    }
    SR_TRY(sr_order_add(o, room, n));
    return sr_order_rows(o, w->packing.rows[batch]);
}

static sr_status add_batches(sr_order *o, const sr_window *w, int64_t index) {
    sr_pick *room;
    SR_TRY(sr_order_keep(o, w->e));
    SR_TRY(sr_new(&room, w->count));
    sr_status st = SR_OK;
    for (int64_t b = index; st == SR_OK && b < w->packing.batches; b += w->updates)
        st = add_batch(o, w, room, b);
    sr_free(room);
    return st;
}

/* The totals before update `index`. */
static sr_cursor begin_of(const sr_window *w, int64_t index) {
    sr_cursor c = w->begin;
    c.drawn.updates += index;
    for (int64_t i = 0; i < w->count; i++)
        if (w->packing.batch[i] % w->updates < index) count_pick(&c.drawn, &w->pick[i]);
    return c;
}

sr_status sr_window_order(sr_order *out, sr_window *w, int64_t index, const sr_loader_opts *opts) {
    *out = (sr_order){.packs = true};
    pthread_mutex_lock(&w->lock);
    sr_status st = arrange(w, opts);
    pthread_mutex_unlock(&w->lock);
    SR_TRY(st);
    out->begin = out->end = begin_of(w, index);
    out->end.drawn.updates++;
    st = add_batches(out, w, index);
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
    sr_status st = add_sequences(w, opts);
    return SR_GIVE(out, w, st, sr_window_release);
}

sr_window *sr_window_retain(sr_window *w) {
    __atomic_add_fetch(&w->refs, 1, __ATOMIC_RELAXED);
    return w;
}

void sr_window_release(sr_window *w) {
    if (w == NULL || __atomic_sub_fetch(&w->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    pthread_mutex_destroy(&w->lock);
    sr_window_packing_free(&w->packing);
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
