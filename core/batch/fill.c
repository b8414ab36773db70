#include "core/batch/fill.h"

#include <inttypes.h>

#include "core/base/mem.h"
#include "core/batch/batch.h"

typedef struct fill {
    const uint16_t *length;
    int64_t n;
    int64_t *rank; /* (n) longest first */
    int64_t *room; /* (batches) rows that are left */
    int64_t *heap; /* (heaped) batches, the one with most room first */
    int64_t *left; /* (updates) sequences that an update still takes */
    int64_t updates, heaped;
    sr_fill *out;
} fill;

/* ---- by length ---- */

/* A counting sort, stable, longest first. */
static sr_status rank_lengths(fill *f) {
    int64_t *first, at = 0;
    SR_TRY(sr_new(&f->rank, f->n));
    SR_TRY(sr_new(&first, UINT16_MAX + 1));
    for (int64_t i = 0; i < f->n; i++) first[f->length[i]]++;
    for (int64_t len = UINT16_MAX; len >= 0; len--) {
        int64_t count = first[len];
        first[len] = at;
        at += count;
    }
    for (int64_t i = 0; i < f->n; i++) f->rank[first[f->length[i]]++] = i;
    sr_free(first);
    return SR_OK;
}

/* ---- the batch with most room ---- */

static bool emptier(const fill *f, int64_t a, int64_t b) {
    return f->room[a] != f->room[b] ? f->room[a] > f->room[b] : a < b;
}

/* Moves the top to its place. */
static void sift(fill *f) {
    int64_t *h = f->heap, n = f->heaped, top = h[0], at = 0;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && emptier(f, h[child + 1], h[child])) child++;
        if (!emptier(f, h[child], top)) break;
        h[at] = h[child];
    }
    h[at] = top;
}

static int64_t *left_of(const fill *f, int64_t batch) {
    return &f->left[batch % f->updates];
}

/* The batch with most room whose update takes another sequence; -1 if there is none. */
static int64_t roomiest(fill *f) {
    while (f->heaped > 0 && *left_of(f, f->heap[0]) == 0) {
        f->heap[0] = f->heap[--f->heaped];
        if (f->heaped > 0) sift(f);
    }
    return f->heaped > 0 ? f->heap[0] : -1;
}

/* The batch with the least room that is enough; -1 if there is none. */
static int64_t tightest(const fill *f, int64_t len) {
    int64_t best = -1, least = INT64_MAX;
    for (int64_t b = 0; b < f->out->batches; b++)
        if (f->room[b] >= len && f->room[b]<least && * left_of(f, b)> 0)
            best = b, least = f->room[b];
    return best;
}

/* ---- one number of tiles ---- */

static void begin(fill *f) {
    sr_fill *o = f->out;
    f->heaped = o->batches;
    for (int64_t b = 0; b < o->batches; b++) {
        o->rows[b] = (o->tiles / o->batches + (b < o->tiles % o->batches)) * SR_ROWS_UNIT;
        f->room[b] = o->rows[b];
        f->heap[b] = b; /* a heap: larger ones come first */
    }
    for (int64_t u = 0; u < f->updates; u++)
        f->left[u] = f->n / f->updates + (u < f->n % f->updates);
}

static void put(fill *f, int64_t s, int64_t batch) {
    f->room[batch] -= f->length[s];
    f->out->batch[s] = (int32_t)batch;
    --*left_of(f, batch);
}

static bool place_all(fill *f) {
    int64_t spread = f->n - f->n / 5, i = 0;
    if (spread < f->out->batches) spread = f->out->batches; /* so that none stays empty */
    begin(f);
    for (; i < spread; i++) {
        int64_t s = f->rank[i], b = roomiest(f);
        if (b < 0 || f->room[b] < f->length[s]) return false;
        put(f, s, b);
        sift(f);
    }
    for (; i < f->n; i++) {
        int64_t b = tightest(f, f->length[f->rank[i]]);
        if (b < 0) return false;
        put(f, f->rank[i], b);
    }
    for (int64_t b = 0; b < f->out->batches; b++)
        if (f->room[b] == f->out->rows[b]) return false;
    return true;
}

/* ---- batches and tiles ---- */

static int64_t up(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit;
}

static sr_status set_batches(fill *f, int64_t each, const sr_fill_opts *o) {
    int64_t most = f->n / o->updates, shares = o->shares < most ? o->shares : most;
    if (shares > 0) each = up(each, shares) * shares;
    if (each > most) each = most;
    f->out->batches = each * o->updates;
    sr_free(f->out->rows);
    sr_free(f->room);
    f->out->rows = f->room = NULL;
    SR_TRY(sr_new(&f->out->rows, f->out->batches));
    SR_TRY(sr_new(&f->room, f->out->batches * 2 + f->updates));
    f->heap = f->room + f->out->batches;
    f->left = f->heap + f->out->batches;
    f->out->tiles = f->out->bound > f->out->batches ? f->out->bound : f->out->batches;
    return SR_OK;
}

/* Whether batches of this many tiles have too many rows, and more batches are possible. */
static bool too_large(const fill *f, const sr_fill_opts *o) {
    const sr_fill *out = f->out;
    return o->rows > 0 && up(out->tiles, out->batches) * SR_ROWS_UNIT > o->rows &&
           out->batches + o->updates <= f->n;
}

static sr_status solve(fill *f, const sr_fill_opts *o) {
    sr_fill *out = f->out;
    int64_t tokens = 0, most = o->rows > 0 ? o->rows / SR_ROWS_UNIT : INT64_MAX;
    for (int64_t i = 0; i < f->n; i++) tokens += f->length[i];
    out->bound = up(tokens, SR_ROWS_UNIT);
    if (most < 1) most = 1;
    SR_TRY(sr_new(&out->batch, f->n));
    SR_TRY(rank_lengths(f));
    SR_TRY(set_batches(f, o->rows > 0 ? up(up(out->bound, most), o->updates) : 1, o));
    while (!place_all(f)) {
        out->tiles += 1 + out->tiles / 1024;
        if (!too_large(f, o)) continue;
        SR_TRY(set_batches(f, out->batches / o->updates + 1, o));
    }
    return SR_OK;
}

/* Rows that no sequence has, beyond the last tile, belong to nobody. */
static void trim(fill *f) {
    sr_fill *o = f->out;
    o->tiles = 0;
    for (int64_t b = 0; b < o->batches; b++) {
        int64_t tiles = up(o->rows[b] - f->room[b], SR_ROWS_UNIT);
        o->tiles += tiles;
        o->rows[b] = tiles * SR_ROWS_UNIT;
    }
}

sr_status sr_fill_solve(sr_fill *out, const uint16_t *length, int64_t n, const sr_fill_opts *opts) {
    *out = (sr_fill){0};
    if (n < 1 || opts->updates < 1 || n < opts->updates)
        return sr_fail(SR_EINVAL,
                       "batch: %" PRId64 " sequences are too few for a window of %" PRId64
                       " updates",
                       n, opts->updates);
    fill f = {.length = length, .n = n, .updates = opts->updates, .out = out};
    sr_status st = solve(&f, opts);
    if (st == SR_OK) trim(&f);
    sr_free(f.room);
    sr_free(f.rank);
    if (st != SR_OK) sr_fill_free(out);
    return st;
}

void sr_fill_free(sr_fill *f) {
    sr_free(f->batch);
    sr_free(f->rows);
    *f = (sr_fill){0};
}
