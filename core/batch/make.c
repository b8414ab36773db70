/* make.c - an update as ordered: whose sequences, in which batches.
 *
 * All packs of the update are looked up first.  Packed ones are then dealt out to the batches by
 * cost, because attention takes the sum of len^2: two batches of equally many tokens can differ by
 * a factor in time, and whoever runs them side by side would wait for the longer one.  The batches
 * hold the same sequences with the same masks, however they are dealt.
 */
#include <inttypes.h>

#include "core/base/mem.h"
#include "core/batch/feed.h"
#include "core/pack/assign.h"

/* The sequences of an update; pack p has pick[start[p]] to pick[start[p + 1] - 1]. */
typedef struct gather {
    sr_pick *pick;
    int64_t *start;
    int64_t count, room, packs;
} gather;

static sr_status gather_pack(gather *g, const sr_run_of_packs *run, int64_t pack, uint32_t *uids) {
    int32_t n = 0;
    SR_TRY(sr_packing_at(run->epoch->packing, run->number, pack, uids, &n));
    if (g->count + n > g->room) {
        int64_t room = (g->count + n) * 2;
        SR_TRY(sr_grow(&g->pick, room));
        g->room = room;
    }
    for (int32_t i = 0; i < n; i++)
        g->pick[g->count++] =
            (sr_pick){.examples = run->epoch->examples, .uid = uids[i], .epoch = run->number};
    g->start[++g->packs] = g->count;
    return SR_OK;
}

static sr_status gather_all(gather *g, const sr_order *order) {
    int32_t deepest = 1;
    int64_t packs = 0;
    for (int64_t r = 0; r < order->runs; r++) {
        int32_t n = sr_packing_deepest(order->run[r].epoch->packing);
        if (n > deepest) deepest = n;
        packs += order->run[r].count;
    }
    uint32_t *uids;
    SR_TRY(sr_new(&g->start, packs + 1));
    SR_TRY(sr_new(&uids, deepest));
    sr_status st = SR_OK;
    for (int64_t r = 0; r < order->runs; r++)
        for (int64_t i = 0; st == SR_OK && i < order->run[r].count; i++)
            st = gather_pack(g, &order->run[r], order->run[r].first + i, uids);
    sr_free(uids);
    return st;
}

static sr_status add_batch(sr_update *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                           int32_t stride, int64_t rows) {
    sr_batch *b;
    if (n > INT32_MAX / 64)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " sequences are too many", n);
    SR_TRY(sr_batch_make(&b, f->d, &f->collators, pick, (int32_t)n, stride, rows,
                         f->opts.examples.seed));
    return sr_update_add(u, b);
}

/* ---- packed ---- */

static double cost_of(const gather *g, int64_t pack, double per_square) {
    double cost = 0;
    for (int64_t i = g->start[pack]; i < g->start[pack + 1]; i++) {
        const sr_pick *p = &g->pick[i];
        uint16_t length = (uint16_t)sr_example_length(&p->examples->example[p->uid]);
        cost += sr_pack_cost(&length, 1, 1, per_square);
    }
    return cost;
}

/* group[p]: the batch of pack p; says in the update how far the costs of the batches differ. */
static sr_status deal(sr_update *u, const gather *g, const sr_feed *f, int32_t *group,
                      int32_t groups) {
    double *cost;
    SR_TRY(sr_new(&cost, g->packs));
    double per_square = f->opts.per_square > 0 ? f->opts.per_square : SR_PER_SQUARE;
    for (int64_t p = 0; p < g->packs; p++) cost[p] = cost_of(g, p, per_square);
    sr_status st = sr_assign_packs(group, &u->imbalance, cost, (int32_t)g->packs, groups);
    sr_free(cost);
    return st;
}

static sr_status add_group(sr_update *u, const gather *g, const sr_feed *f, const int32_t *group,
                           int32_t which, sr_pick *room) {
    int64_t n = 0, packs = 0;
    for (int64_t p = 0; p < g->packs; p++) {
        if (group[p] != which) continue;
        for (int64_t i = g->start[p]; i < g->start[p + 1]; i++) room[n++] = g->pick[i];
        packs++;
    }
    return add_batch(u, f, room, n, 0, packs * f->opts.examples.max_len);
}

static sr_status add_packed(sr_update *u, const gather *g, const sr_feed *f) {
    int64_t micro = f->opts.micro > 0 ? f->opts.micro : g->packs;
    int32_t groups = (int32_t)((g->packs + micro - 1) / micro), *group;
    sr_pick *room;
    SR_TRY(sr_new(&group, g->packs));
    sr_status st;
    SR_GO(no_room, st, sr_new(&room, g->count));
    st = deal(u, g, f, group, groups);
    for (int32_t i = 0; st == SR_OK && i < groups; i++) st = add_group(u, g, f, group, i, room);
    sr_free(room);
no_room:
    sr_free(group);
    return st;
}

/* ---- padded and single ---- */

/* Batches of `micro` rows of one sequence each. */
static sr_status add_padded(sr_update *u, const sr_feed *f, const sr_pick *pick, int64_t n) {
    int64_t micro = f->opts.micro > 0 ? f->opts.micro : n;
    int32_t len = f->opts.examples.max_len;
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < n; i += micro) {
        int64_t rows = n - i < micro ? n - i : micro;
        st = add_batch(u, f, pick + i, rows, len, rows * len);
    }
    return st;
}

static sr_status add_single(sr_update *u, const sr_feed *f, const sr_pick *pick, int64_t n) {
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < n; i++) st = add_batch(u, f, pick + i, 1, 0, 0);
    return st;
}

/* ---- updates ---- */

static sr_status fill(sr_update *u, gather *g, const sr_feed *f, const sr_order *order) {
    SR_TRY(gather_all(g, order));
    u->packs = g->packs;
    if (g->count == 0) return SR_OK;
    if (f->opts.arrange == SR_PACKED) return add_packed(u, g, f);
    if (f->opts.arrange == SR_PADDED) return add_padded(u, f, g->pick, g->count);
    return add_single(u, f, g->pick, g->count);
}

sr_status sr_feed_make(sr_update **out, const sr_feed *f, const sr_order *order) {
    *out = NULL;
    sr_update *u;
    SR_TRY(sr_new(&u, 1));
    u->imbalance = 1;
    gather g = {0};
    sr_status st = fill(u, &g, f, order);
    sr_free(g.start);
    sr_free(g.pick);
    if (st != SR_OK) {
        sr_update_free(u);
        return st;
    }
    u->index = order->index;
    u->begin = order->begin;
    u->end = order->end;
    sr_update_weigh(u);
    *out = u;
    return SR_OK;
}

sr_status sr_feed_pick(sr_update **out, const sr_feed *f, const sr_pick *pick, int64_t n,
                       sr_arrange how) {
    *out = NULL;
    sr_update *u;
    SR_TRY(sr_new(&u, 1));
    u->imbalance = 1;
    sr_status st = SR_OK;
    if (n > 0 && how == SR_PACKED) st = add_batch(u, f, pick, n, 0, 0);
    if (n > 0 && how == SR_PADDED) st = add_padded(u, f, pick, n);
    if (n > 0 && how == SR_SINGLE) st = add_single(u, f, pick, n);
    if (st != SR_OK) {
        sr_update_free(u);
        return st;
    }
    sr_update_weigh(u);
    *out = u;
    return SR_OK;
}
