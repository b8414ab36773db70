#include "core/batch/deal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/batch/fit.h"
#include "core/pack/assign.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static double cost_of(const sr_pick *pick, int64_t n, const sr_loader_opts *o) {
    double cost = 0, per_square = o->per_square > 0 ? o->per_square : SR_PER_SQUARE;
    for (int64_t i = 0; i < n; i++) {
        uint16_t length = (uint16_t)sr_pick_length(&pick[i]);
        cost += sr_pack_cost(&length, 1, 1, per_square);
    }
    return cost;
}

/* The minimum number of batches for these packs (or rows); equally many per share if shares are
 * set. */
static int64_t batches_for(int64_t packs, const sr_loader_opts *o) {
    int64_t micro = o->micro > 0 ? o->micro : packs, n = (packs + micro - 1) / micro;
    if (o->shares == 0) return n;
    int64_t shares = smaller(o->shares, packs);
    return smaller((n + shares - 1) / shares * shares, packs);
}

static sr_status make_batches(sr_deal *d, int64_t batches) {
    d->batches = batches;
    SR_TRY(sr_new(&d->end, batches));
    return sr_new(&d->rows, batches);
}

static void forget_batches(sr_deal *d) {
    sr_free(d->end);
    sr_free(d->rows);
    d->end = d->rows = NULL;
}

/* ---- existing packs ---- */

typedef struct packs {
    const sr_pick *pick;
    const int64_t *end;
    int64_t count;
} packs;

static int64_t first_of(const packs *p, int64_t i) {
    return i == 0 ? 0 : p->end[i - 1];
}

/* Fills the batches with their packs, in the order of these. */
static void gather(sr_deal *d, const packs *p, const int32_t *batch, const sr_loader_opts *o) {
    for (int64_t i = 0; i < p->count; i++) {
        d->end[batch[i]] += p->end[i] - first_of(p, i);
        d->rows[batch[i]] += o->examples.max_len;
    }
    for (int64_t b = 0, at = 0; b < d->batches; b++) { /* begin at its place, end after the loop */
        int64_t n = d->end[b];
        d->end[b] = at;
        at += n;
    }
    for (int64_t i = 0; i < p->count; i++) {
        int64_t first = first_of(p, i), n = p->end[i] - first, *at = &d->end[batch[i]];
        if (n > 0) memcpy(d->pick + *at, p->pick + first, (size_t)n * sizeof *d->pick);
        *at += n;
    }
}

/* Shares that were asked for are cut by cost; otherwise a share is a run of batches. */
static sr_status assign(sr_deal *d, int32_t *batch, const double *cost, int32_t n,
                        const sr_loader_opts *o) {
    int32_t batches = (int32_t)d->batches;
    if (o->shares > 0 && batches % o->shares == 0)
        return sr_deal_shares(batch, &d->imbalance, cost, n, batches, (int32_t)o->shares,
                              o->balance);
    return sr_assign_packs(batch, &d->imbalance, cost, n, batches, o->balance);
}

static sr_status deal_packs(sr_deal *d, const packs *p, const sr_loader_opts *o) {
    int32_t *batch;
    double *cost;
    if (p->count > INT32_MAX)
        return sr_fail(SR_EINVAL, "batch: an update of %" PRId64 " packs is too large", p->count);
    SR_TRY(make_batches(d, batches_for(p->count, o)));
    SR_TRY(sr_new(&cost, (size_t)p->count * 2)); /* and the following batches */
    batch = (int32_t *)(cost + p->count);
    for (int64_t i = 0; i < p->count; i++) {
        int64_t first = first_of(p, i);
        cost[i] = cost_of(p->pick + first, p->end[i] - first, o);
    }
    sr_status st = assign(d, batch, cost, (int32_t)p->count, o);
    if (st == SR_OK) gather(d, p, batch, o);
    sr_free(cost);
    d->packs = p->count;
    return st;
}

/* ---- groups that stay together ---- */

typedef struct ranked {
    double cost;
    int64_t group;
    int64_t batch;
} ranked;

static int by_cost(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

static int by_batch(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

static int64_t least_of(const double *load, int64_t n) {
    int64_t least = 0;
    for (int64_t i = 1; i < n; i++)
        if (load[i] < load[least]) least = i;
    return least;
}

/* Assigns the groups to batches: unless the balance is by turns, most expensive first to the
 * cheapest batch. */
static sr_status spread(sr_deal *d, ranked *rank, const sr_order *order, const sr_loader_opts *o) {
    double *load, most = 0, all = 0;
    SR_TRY(sr_new(&load, d->batches));
    for (int64_t g = 0; g < order->groups; g++) {
        int64_t first = sr_order_group(order, g);
        rank[g].cost = cost_of(order->pick + first, order->group_end[g] - first, o);
        rank[g].group = g;
    }
    if (o->balance != SR_BALANCE_RANDOM) qsort(rank, (size_t)order->groups, sizeof *rank, by_cost);
    for (int64_t i = 0; i < order->groups; i++) {
        rank[i].batch = o->balance > SR_BALANCE_LPT
                            ? sr_balance_turn(o->balance, i, order->groups, d->batches)
                            : least_of(load, d->batches);
        load[rank[i].batch] += rank[i].cost;
        all += rank[i].cost;
    }
    for (int64_t b = 0; b < d->batches; b++) most = load[b] > most ? load[b] : most;
    d->imbalance = all > 0 ? most * (double)d->batches / all : 1;
    qsort(rank, (size_t)order->groups, sizeof *rank, by_batch);
    sr_free(load);
    return SR_OK;
}

/* Packs the sequences of each batch; *most becomes the largest number of packs. */
static sr_status fit_batches(sr_deal *d, int64_t *most, const ranked *rank, const sr_order *order,
                             const sr_loader_opts *o, int64_t *pack_end) {
    int64_t at = 0, g = 0;
    *most = d->packs = 0;
    for (int64_t b = 0; b < d->batches; b++) {
        int64_t begin = at, n = 0;
        for (; g < order->groups && rank[g].batch == b; g++) {
            int64_t first = sr_order_group(order, rank[g].group);
            int64_t count = order->group_end[rank[g].group] - first;
            memcpy(d->pick + at, order->pick + first, (size_t)count * sizeof *d->pick);
            at += count;
        }
        if (at > begin)
            SR_TRY(sr_fit(d->pick + begin, at - begin, pack_end, &n, o,
                          (uint32_t)order->begin.drawn.updates));
        d->end[b] = at;
        d->rows[b] = n * o->examples.max_len;
        d->packs += n;
        if (n > *most) *most = n;
    }
    return SR_OK;
}

static sr_status too_large(int64_t groups, const sr_loader_opts *o) {
    return sr_fail(SR_EINVAL,
                   "batch: a group of the order needs more than the %" PRId64
                   " packs of a micro-batch (its update has %" PRId64
                   " groups); raise micro_packs, or split the group",
                   o->micro, groups);
}

/* Increases the number of batches until none exceeds the limit of packs. */
static sr_status deal_groups(sr_deal *d, const sr_order *order, const sr_loader_opts *o,
                             int64_t batches, int64_t *pack_end) {
    ranked *rank;
    int64_t micro = o->micro > 0 ? o->micro : INT64_MAX - 1;
    SR_TRY(sr_new(&rank, order->groups));
    sr_status st = SR_OK;
    for (int64_t most = INT64_MAX; st == SR_OK && most > micro; batches++) {
        forget_batches(d);
        if (batches > order->groups) st = too_large(order->groups, o);
        if (st == SR_OK) st = make_batches(d, batches);
        if (st == SR_OK) st = spread(d, rank, order, o);
        if (st == SR_OK) st = fit_batches(d, &most, rank, order, o, pack_end);
    }
    sr_free(rank);
    return st;
}

static sr_status deal_unpacked(sr_deal *d, const sr_order *order, const sr_loader_opts *o) {
    int64_t *pack_end, n = 0;
    sr_pick *pick;
    SR_TRY(sr_new(&pack_end, order->sequences));
    sr_status st;
    SR_GO(done, st, sr_new(&pick, order->sequences));
    memcpy(pick, order->pick, (size_t)order->sequences * sizeof *pick);
    st = sr_fit(pick, order->sequences, pack_end, &n, o, (uint32_t)order->begin.drawn.updates);
    int64_t batches = st == SR_OK ? batches_for(n, o) : 0;
    if (st == SR_OK && (batches == 1 || order->groups == order->sequences))
        st = deal_packs(d, &(packs){pick, pack_end, n}, o);
    else if (st == SR_OK)
        st = deal_groups(d, order, o, smaller(batches, order->groups), pack_end);
    sr_free(pick);
done:
    sr_free(pack_end);
    return st;
}

/* ---- rows of one sequence each ---- */

/* The number of sequences that must stay together: those of a group, unless groups are packs. */
static int64_t together(const sr_order *order, int64_t *group, int64_t at) {
    if (order->packs) return 1;
    while (order->group_end[*group] <= at) ++*group;
    return order->group_end[*group] - at;
}

static sr_status deal_rows(sr_deal *d, const sr_order *order, const sr_loader_opts *o) {
    int64_t n = order->sequences, micro = o->micro > 0 ? o->micro : n, group = 0, b = -1, used = 0;
    int64_t least = batches_for(n, o), room = o->shares > 0 ? (n + least - 1) / least : micro;
    d->stride = o->examples.max_len;
    SR_TRY(make_batches(d, n)); /* at most */
    memcpy(d->pick, order->pick, (size_t)n * sizeof *d->pick);
    for (int64_t at = 0, k; at < n; at += k) {
        k = together(order, &group, at);
        if (k > micro) return too_large(order->groups, o);
        if (b < 0 || used + k > room) b++, used = 0;
        used += k;
        d->end[b] = at + k;
        d->rows[b] = used * d->stride;
    }
    d->batches = b + 1;
    d->packs = order->packs ? order->groups : n;
    return SR_OK;
}

/* One batch for each sequence, or for each group that must stay together. */
static sr_status deal_single(sr_deal *d, const sr_order *order) {
    SR_TRY(make_batches(d, order->sequences)); /* at most */
    memcpy(d->pick, order->pick, (size_t)order->sequences * sizeof *d->pick);
    int64_t b = 0, group = 0;
    for (int64_t at = 0; at < order->sequences; b++) {
        at += together(order, &group, at);
        d->end[b] = at;
    }
    d->batches = b;
    d->packs = order->groups;
    return SR_OK;
}

/* ---- existing batches ---- */

static sr_status deal_batches(sr_deal *d, const sr_order *order, const sr_loader_opts *o) {
    double most = 0, all = 0;
    int64_t rows = 0;
    SR_TRY(make_batches(d, order->groups));
    memcpy(d->pick, order->pick, (size_t)order->sequences * sizeof *d->pick);
    for (int64_t b = 0; b < order->groups; b++) {
        int64_t first = sr_order_group(order, b);
        double cost = cost_of(order->pick + first, order->group_end[b] - first, o);
        d->end[b] = order->group_end[b];
        rows += d->rows[b] = order->rows[b];
        most = cost > most ? cost : most;
        all += cost;
    }
    d->imbalance = all > 0 ? most * (double)order->groups / all : 1;
    d->packs = (rows + o->examples.max_len - 1) / o->examples.max_len;
    return SR_OK;
}

/* ---- any order ---- */

static sr_status deal(sr_deal *d, const sr_order *order, const sr_loader_opts *o) {
    SR_TRY(sr_new(&d->pick, order->sequences));
    if (o->arrange == SR_PADDED) return deal_rows(d, order, o);
    if (o->arrange == SR_SINGLE) return deal_single(d, order);
    if (!order->packs) return deal_unpacked(d, order, o);
    if (order->rows != NULL) return deal_batches(d, order, o);
    return deal_packs(d, &(packs){order->pick, order->group_end, order->groups}, o);
}

sr_status sr_deal_order(sr_deal *out, const sr_order *order, const sr_loader_opts *opts) {
    *out = (sr_deal){.sequences = order->sequences, .imbalance = 1};
    sr_status st = deal(out, order, opts);
    if (st != SR_OK) {
        sr_deal_free(out);
        return st;
    }
    out->shares = smaller(opts->shares > 0 ? opts->shares : SR_USUAL_SHARES, out->batches);
    return SR_OK;
}

void sr_deal_free(sr_deal *d) {
    sr_free(d->pick);
    forget_batches(d);
    *d = (sr_deal){0};
}
