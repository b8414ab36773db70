#include "core/pack/online.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/pack/build.h"
#include "core/pack/solvers.h"

typedef struct row {
    uint32_t *uids;
    uint16_t *lengths;
    int32_t n, room, space;
    int32_t before, after; /* ring of rows with equal space; a stack of free rows */
} row;

struct sr_online {
    int32_t capacity, max_seqs, open, used, free_row, leaving;
    row *rows;     /* open + 1: one may be closing */
    int32_t *head; /* by space: rows, newest first; -1 for none */
    uint64_t *bit; /* spaces that have a row */
};

sr_status sr_online_new(sr_online **out, int32_t capacity, int32_t max_seqs, int32_t open) {
    *out = NULL;
    if (capacity < 1 || capacity > SR_MAX_LENGTH || max_seqs < 0 || open < 1 || open > 1 << 20)
        return sr_fail(
            SR_EINVAL,
            "pack: online requires a capacity of 1 to 65535 and 1 to 1048576 open packs, not "
            "%d and %d",
            capacity, open);
    sr_online *o;
    SR_TRY(sr_new(&o, 1));
    o->capacity = capacity, o->open = open, o->leaving = -1;
    o->max_seqs = max_seqs > 0 ? max_seqs : capacity;
    sr_status st;
    SR_GO(fail, st, sr_new(&o->rows, open + 1));
    SR_GO(fail, st, sr_new(&o->head, capacity + 1));
    SR_GO(fail, st, sr_new(&o->bit, capacity / 64 + 1));
    memset(o->head, -1, ((size_t)capacity + 1) * sizeof *o->head);
    for (int32_t i = 0; i <= open; i++) o->rows[i].after = i < open ? i + 1 : -1;
    *out = o;
    return SR_OK;
fail:
    sr_online_free(o);
    return st;
}

void sr_online_free(sr_online *o) {
    if (o == NULL) return;
    for (int32_t i = 0; o->rows != NULL && i <= o->open; i++) {
        sr_free(o->rows[i].uids);
        sr_free(o->rows[i].lengths);
    }
    sr_free(o->rows);
    sr_free(o->head);
    sr_free(o->bit);
    sr_free(o);
}

static int32_t space_above(const sr_online *o, int32_t space) {
    int32_t words = o->capacity / 64 + 1;
    uint64_t here = o->bit[space >> 6] & ~(uint64_t)0 << (space & 63);
    for (int32_t w = space >> 6; here == 0;) {
        if (++w == words) return -1;
        here = o->bit[w];
        space = w << 6;
    }
    return (space & ~63) + __builtin_ctzll(here);
}

static void link_row(sr_online *o, int32_t i) {
    row *r = &o->rows[i];
    r->before = -1;
    r->after = o->head[r->space];
    if (r->after >= 0) o->rows[r->after].before = i;
    o->head[r->space] = i;
    o->bit[r->space >> 6] |= (uint64_t)1 << (r->space & 63);
}

static int32_t unlink_first(sr_online *o, int32_t space) {
    int32_t i = o->head[space];
    o->head[space] = o->rows[i].after;
    if (o->head[space] < 0)
        o->bit[space >> 6] &= ~((uint64_t)1 << (space & 63));
    else
        o->rows[o->head[space]].before = -1;
    return i;
}

/* Returns the row; it is freed at the next call. */
static void leave(sr_online *o, int32_t i, sr_online_pack *left) {
    const row *r = &o->rows[i];
    *left = (sr_online_pack){r->uids, r->lengths, r->n};
    o->leaving = i;
    o->used--;
}

static void reclaim(sr_online *o) {
    if (o->leaving < 0) return;
    o->rows[o->leaving].after = o->free_row;
    o->free_row = o->leaving;
    o->leaving = -1;
}

static sr_status append(row *r, uint32_t uid, uint32_t length) {
    if (r->n == r->room) {
        size_t room = r->room > 0 ? (size_t)r->room * 2 : 8;
        SR_TRY(sr_grow(&r->uids, room));
        SR_TRY(sr_grow(&r->lengths, room));
        r->room = (int32_t)room;
    }
    r->uids[r->n] = uid;
    r->lengths[r->n++] = (uint16_t)length;
    r->space -= (int32_t)length;
    return SR_OK;
}

static int32_t open_row(sr_online *o, sr_online_pack *left) {
    int32_t i = o->free_row;
    o->free_row = o->rows[i].after;
    if (o->used == o->open) leave(o, unlink_first(o, space_above(o, 0)), left);
    o->used++;
    o->rows[i].n = 0;
    o->rows[i].space = o->capacity;
    return i;
}

sr_status sr_online_push(sr_online *o, uint32_t uid, uint32_t length, sr_online_pack *left) {
    *left = (sr_online_pack){NULL, NULL, 0};
    if (length < 1 || length > (uint32_t)o->capacity)
        return sr_fail(SR_EDATA, "pack: sequence %u of %u tokens does not fit a pack of %d", uid,
                       length, o->capacity);
    reclaim(o);
    int32_t space = space_above(o, (int32_t)length);
    int32_t i = space >= 0 ? unlink_first(o, space) : open_row(o, left);
    sr_status st = append(&o->rows[i], uid, length);
    /* A pack was closed only if this one was just opened; one sequence fills it only at full
     * capacity or a depth of 1.  Then it stays open until the next call closes it as the fullest.
     */
    bool full = o->rows[i].space == 0 || o->rows[i].n == o->max_seqs;
    if (full && left->n == 0 && st == SR_OK)
        leave(o, i, left);
    else if (full)
        o->rows[i].space = 0, link_row(o, i);
    else
        link_row(o, i);
    return st;
}

sr_status sr_online_flush(sr_online *o, sr_online_pack *left) {
    *left = (sr_online_pack){NULL, NULL, 0};
    reclaim(o);
    int32_t space = space_above(o, 0);
    if (space >= 0) leave(o, unlink_first(o, space), left);
    return SR_OK;
}

/* ---- whole streams ---- */

static sr_status add_pack(sr_builder *b, sr_plan_part *parts, const sr_online_pack *p) {
    for (int32_t k = 0; k < p->n; k++) parts[k] = (sr_plan_part){p->lengths[k], 1};
    return p->n > 0 ? sr_build_add(b, 1, parts, (size_t)p->n) : SR_OK;
}

/* Adds one sequence, in pieces if the policy splits it. */
static sr_status push_by_policy(sr_builder *b, sr_online *o, sr_plan_part *parts, uint32_t uid,
                                uint32_t length, sr_long_policy policy) {
    const uint32_t capacity = (uint32_t)o->capacity;
    if (length > capacity && policy == SR_LONG_TRUNCATE) length = capacity;
    do {
        sr_online_pack left;
        uint32_t take = length > capacity && policy == SR_LONG_SPLIT ? capacity : length;
        SR_TRY(sr_online_push(o, uid, take, &left));
        SR_TRY(add_pack(b, parts, &left));
        length -= take;
    } while (length > 0);
    return SR_OK;
}

static sr_status stream(sr_builder *b, sr_online *o, const sr_lengths *lengths,
                        sr_long_policy policy) {
    sr_plan_part *parts;
    sr_online_pack left;
    SR_TRY(sr_new(&parts, o->capacity));
    sr_status st = SR_OK;
    for (int64_t i = 0; i < lengths->count && st == SR_OK; i++)
        st = push_by_policy(b, o, parts, (uint32_t)i, sr_length_at(lengths, i), policy);
    for (left.n = 1; left.n > 0 && st == SR_OK;) {
        st = sr_online_flush(o, &left);
        if (st == SR_OK) st = add_pack(b, parts, &left);
    }
    sr_free(parts);
    return st;
}

sr_status sr_online_plan(sr_plan **out, const sr_lengths *lengths, int32_t capacity,
                         int32_t max_seqs, int32_t open, sr_long_policy policy) {
    sr_histogram h = {0};
    sr_builder b = {0};
    sr_online *o = NULL;
    *out = NULL;
    SR_TRY(sr_histogram_count(&h, lengths, capacity, policy));
    sr_status st = sr_online_new(&o, capacity, max_seqs, open > 0 ? open : 64);
    if (st == SR_OK) st = sr_build_begin(&b, &h, max_seqs, "online");
    if (st == SR_OK) st = stream(&b, o, lengths, policy);
    if (st == SR_OK) st = sr_build_end(out, &b);
    sr_build_drop(&b);
    sr_online_free(o);
    sr_histogram_free(&h);
    return st;
}

sr_status sr_solve_online(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    uint16_t *length;
    SR_TRY(sr_histogram_shuffled(&length, h, opts->seed));
    sr_lengths stream = {length, 2, h->sequences};
    sr_status st =
        sr_online_plan(out, &stream, h->capacity, opts->max_seqs, opts->open, SR_LONG_ERROR);
    sr_free(length);
    return st;
}
