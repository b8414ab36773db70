#include "core/batch/tiles.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum { CLASSES = SR_GROUP_LIMIT / SR_STRIP_ROWS }; /* of short sequences: by number of strips */

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t pieces(int32_t n, int32_t size) {
    return (n + size - 1) / size;
}

static bool is_long(const sr_layout *l, int32_t s) {
    return l->len[s] > SR_GROUP_LIMIT;
}

/* ---- long sequences -------------------------------------------------------------------------- */

/* The sequence's rows from .. from + rows - 1 against all its keys. */
static void add_rows(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s, int32_t from,
                     int32_t rows) {
    int32_t n = l->len[s];
    sr_tile *tile = &t->tile[t->count++];
    run->count++;
    tile->rows = rows;
    tile->keys = n;
    tile->key_row = l->start[s];
    tile->block = -1;
    tile->cost = pieces(rows, SR_STRIP_ROWS) * pieces(n, SR_STRIP_ROWS);
    tile->strip[0] = (sr_strip){.row = l->start[s] + from,
                                .position = from,
                                .rows = least(rows, SR_STRIP_ROWS),
                                .key_end = n,
                                .uid = l->uid[s],
                                .epoch = l->epoch[s],
                                .sequence = s};
}

/* Rows 0 .. to - 1 in tiles of `size`. */
static void add_tiles(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s, int32_t from,
                      int32_t to, int32_t size) {
    for (int32_t i = from; i < to; i += size) add_rows(t, run, l, s, i, least(size, to - i));
}

/* The rows of a sequence of n that wide tiles take: the last of them must be more than half full.
 */
static int32_t wide_rows(int32_t n) {
    return n % SR_TILE_WIDE > SR_TILE_ROWS ? n : n - n % SR_TILE_WIDE;
}

typedef void (*cutter)(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s);

static void cut_wide(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s) {
    add_tiles(t, run, l, s, 0, wide_rows(l->len[s]), SR_TILE_WIDE);
}

static void cut_narrow(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s) {
    add_tiles(t, run, l, s, wide_rows(l->len[s]), l->len[s], SR_TILE_ROWS);
}

static void cut_blocks(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s) {
    add_tiles(t, run, l, s, 0, l->len[s], SR_TILE_ROWS);
}

static void cut_owner(sr_tiles *t, sr_tile_run *run, const sr_layout *l, int32_t s) {
    add_rows(t, run, l, s, 0, l->len[s]);
}

static sr_tile_run cut(sr_tiles *t, const sr_layout *l, cutter each) {
    sr_tile_run run = {.first = t->count};
    for (int32_t i = 0; i < l->sequences && is_long(l, l->longest_first[i]); i++)
        each(t, &run, l, l->longest_first[i]);
    return run;
}

static void number_blocks(sr_tiles *t) {
    for (int32_t i = 0; i < t->blocks.count; i++) t->tile[t->blocks.first + i].block = i;
    int32_t at = 0;
    for (int32_t i = 0; i < t->owners.count; i++) {
        sr_tile *owner = &t->tile[t->owners.first + i];
        owner->block = at;
        at += pieces(owner->rows, SR_TILE_ROWS);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Adds the strips of a short sequence to a group, from its strip `at` on. */
static void join(sr_tile *tile, int32_t at, const sr_layout *l, int32_t s) {
    int32_t n = l->len[s], strips = pieces(n, SR_STRIP_ROWS), begin = at * SR_STRIP_ROWS;
    for (int32_t i = 0; i < strips; i++)
        tile->strip[at + i] = (sr_strip){.row = l->start[s] + i * SR_STRIP_ROWS,
                                         .position = i * SR_STRIP_ROWS,
                                         .rows = least(SR_STRIP_ROWS, n - i * SR_STRIP_ROWS),
                                         .key_begin = begin,
                                         .key_end = begin + n,
                                         .uid = l->uid[s],
                                         .epoch = l->epoch[s],
                                         .sequence = s};
    tile->cost += strips * strips;
}

/* Short sequences by number of strips, in the order of the buffer. */
typedef struct shelf {
    int32_t *sequence, count, next;
} shelf;

/* Fills groups with what fits, the largest first: 3 + 1, 2 + 2, 2 + 1 + 1, 1 + 1 + 1 + 1 strips. */
static sr_tile_run group(sr_tiles *t, const sr_layout *l, shelf shelves[CLASSES]) {
    sr_tile_run run = {.first = t->count};
    for (int32_t largest = CLASSES; largest > 0; largest--) {
        while (shelves[largest - 1].next < shelves[largest - 1].count) {
            sr_tile *tile = &t->tile[t->count++];
            *tile =
                (sr_tile){.rows = SR_TILE_ROWS, .keys = SR_TILE_ROWS, .key_row = -1, .block = -1};
            for (int32_t i = 0; i < SR_TILE_STRIPS; i++) tile->strip[i].sequence = -1;
            run.count++;
            int32_t at = 0;
            for (int32_t strips = largest; strips > 0; strips--) {
                shelf *from = &shelves[strips - 1];
                for (; at + strips <= SR_TILE_STRIPS && from->next < from->count; at += strips)
                    join(tile, at, l, from->sequence[from->next++]);
            }
        }
    }
    return run;
}

/* *block is the memory of the lists; the caller frees it. */
static sr_status shelve(int32_t **block, shelf shelves[CLASSES], const sr_layout *l) {
    int64_t n = l->sequences;
    SR_TRY(sr_new(block, CLASSES * n + 1));
    for (int i = 0; i < CLASSES; i++) shelves[i] = (shelf){.sequence = *block + i * n};
    for (int32_t s = 0; s < n; s++) {
        if (is_long(l, s)) continue;
        shelf *to = &shelves[pieces(l->len[s], SR_STRIP_ROWS) - 1];
        to->sequence[to->count++] = s;
    }
    return SR_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int by_cost(const void *left, const void *right) {
    const sr_tile *a = left, *b = right;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    return (a->strip[0].row > b->strip[0].row) - (a->strip[0].row < b->strip[0].row);
}

static void sort(sr_tiles *t, sr_tile_run run) {
    if (run.count > 1) qsort(t->tile + run.first, (size_t)run.count, sizeof *t->tile, by_cost);
}

/* An upper bound of the number of tiles. */
static int64_t room(const sr_layout *l) {
    int64_t n = 1;
    for (int32_t s = 0; s < l->sequences; s++)
        n += is_long(l, s)
                 ? 1 + pieces(l->len[s], SR_TILE_WIDE) + 1 + pieces(l->len[s], SR_TILE_ROWS)
                 : 1;
    return n;
}

static sr_status find_slack(sr_tiles *t, const sr_layout *l) {
    SR_TRY(sr_new(&t->slack, l->rows - l->tokens + 1));
    for (int32_t r = 0; r < l->rows; r++)
        if (l->owner[r] < 0) t->slack[t->slack_count++] = r;
    return SR_OK;
}

static sr_status fill(sr_tiles *t, const sr_layout *l) {
    SR_TRY(sr_new(&t->tile, room(l)));
    SR_TRY(find_slack(t, l));
    int32_t *block;
    shelf shelves[CLASSES];
    SR_TRY(shelve(&block, shelves, l));
    t->wide = cut(t, l, cut_wide);
    t->narrow = cut(t, l, cut_narrow);
    t->blocks = cut(t, l, cut_blocks);
    t->owners = cut(t, l, cut_owner);
    t->groups = group(t, l, shelves);
    sr_free(block);
    number_blocks(t);
    sort(t, t->wide);
    sort(t, t->narrow);
    sort(t, t->groups);
    return SR_OK;
}

sr_status sr_tiles_new(sr_tiles **out, const sr_layout *layout) {
    SR_TRY(sr_new(out, 1));
    sr_status st = fill(*out, layout);
    if (st == SR_OK) return SR_OK;
    sr_tiles_free(*out);
    *out = NULL;
    return st;
}

void sr_tiles_free(sr_tiles *tiles) {
    if (tiles == NULL) return;
    sr_free(tiles->tile);
    sr_free(tiles->slack);
    sr_free(tiles);
}

/* ---- who takes what in the backward pass ----------------------------------------------------- */

/* Costs are in twentieths of a visit, the 5 products of 64 queries with 64 keys; also, a
 * job costs one and a half, and a block of keys a part of one: see recipes/bench/traffic.lua. */
enum { VISIT = 20, JOB = 30, KEYS = 13, QUERIES = 1, GROUP = VISIT + JOB + KEYS + QUERIES };

typedef struct pass {
    const sr_tiles *tiles;
    int64_t heads, kv_heads, reach;
} pass;

static const sr_tile *owner_of(const pass *p, int32_t i) {
    return p->tiles->tile + p->tiles->owners.first + i;
}

/* Rows that a block of an owner sees. */
static int32_t seen(const pass *p, const sr_tile *owner) {
    return p->reach + 2 * SR_TILE_ROWS < owner->keys ? (int32_t)p->reach + 2 * SR_TILE_ROWS
                                                     : owner->keys;
}

static int64_t cost_of_keys(const pass *p, const sr_tile *owner) {
    int64_t strips = pieces(seen(p, owner), SR_STRIP_ROWS);
    return JOB + KEYS + strips * 4 * (p->heads / p->kv_heads);
}

static int64_t cost_of_queries(const pass *p, const sr_tile *owner) {
    return JOB + QUERIES + pieces(seen(p, owner), SR_STRIP_ROWS) * 3;
}

static int64_t cost_of_whole(const pass *p, const sr_tile *owner) {
    int64_t blocks = pieces(owner->rows, SR_TILE_ROWS);
    int64_t visits = pieces(owner->rows, SR_STRIP_ROWS) * pieces(seen(p, owner), SR_TILE_ROWS);
    return JOB + blocks * (KEYS + QUERIES) + visits * 5 * (p->heads / p->kv_heads);
}

/* What splitting an owner adds to the cost of all heads. */
static int64_t cost_of_split(const pass *p, const sr_tile *owner) {
    int64_t blocks = pieces(owner->rows, SR_TILE_ROWS);
    return blocks * (cost_of_keys(p, owner) * p->kv_heads + cost_of_queries(p, owner) * p->heads) -
           cost_of_whole(p, owner) * p->kv_heads;
}

/* When each worker is done: a heap with the first of them on top. */
typedef struct workers {
    int64_t *end, latest;
    int count;
} workers;

static void take(workers *w, int64_t jobs, int64_t cost) {
    for (; jobs > 0; jobs--) {
        int64_t end = w->end[0] + cost;
        int at = 0;
        for (int child = 1; child < w->count; child = 2 * at + 1) {
            if (child + 1 < w->count && w->end[child + 1] < w->end[child]) child++;
            if (w->end[child] >= end) break;
            w->end[at] = w->end[child];
            at = child;
        }
        w->end[at] = end;
        if (end > w->latest) w->latest = end;
    }
}

/* When the last worker is done with this split, whose `before` is set here. */
static int64_t finish_of(workers *w, const pass *p, sr_split *split) {
    int32_t at = split->sequences, owners = p->tiles->owners.count;
    int64_t least = at > 0 ? cost_of_keys(p, owner_of(p, 0)) : INT64_MAX;
    memset(w->end, 0, (size_t)w->count * sizeof *w->end);
    w->latest = 0;
    for (; at < owners && cost_of_whole(p, owner_of(p, at)) > least; at++)
        take(w, p->kv_heads, cost_of_whole(p, owner_of(p, at)));
    split->before = at - split->sequences;
    for (int kind = 0; kind < 2; kind++)
        for (int32_t i = 0; i < split->sequences; i++) {
            const sr_tile *owner = owner_of(p, i);
            int64_t blocks = pieces(owner->rows, SR_TILE_ROWS);
            take(w, blocks * (kind == 0 ? p->kv_heads : p->heads),
                 kind == 0 ? cost_of_keys(p, owner) : cost_of_queries(p, owner));
        }
    for (; at < owners; at++) take(w, p->kv_heads, cost_of_whole(p, owner_of(p, at)));
    take(w, p->tiles->groups.count * p->kv_heads, GROUP);
    return w->latest;
}

static void choose(sr_split *out, workers *w, const pass *p) {
    int32_t owners = p->tiles->owners.count;
    int64_t best = INT64_MAX, all = p->tiles->groups.count * p->kv_heads * GROUP;
    sr_split now = {0};
    for (int32_t i = 0; i < owners; i++) all += cost_of_whole(p, owner_of(p, i)) * p->kv_heads;
    while (all / w->count < best) { /* even shares of what is done; splitting adds to it */
        int64_t end = finish_of(w, p, &now);
        if (end < best) {
            best = end;
            *out = now;
        }
        const sr_tile *next = owner_of(p, now.sequences);
        if (now.sequences == owners || next->rows <= SR_TILE_ROWS) return;
        all += cost_of_split(p, next);
        now.blocks += pieces(next->rows, SR_TILE_ROWS);
        now.sequences++;
    }
}

sr_status sr_tiles_split(sr_split *out, const sr_tiles *tiles, int heads, int kv_heads, int slots,
                         int64_t reach) {
    workers w = {.count = slots};
    pass p = {tiles, heads, kv_heads, reach};
    *out = (sr_split){0};
    SR_TRY(sr_new(&w.end, slots));
    choose(out, &w, &p);
    sr_free(w.end);
    return SR_OK;
}
