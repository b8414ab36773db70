#include "core/loader/assign.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
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

static sr_status make_batches(sr_assignment *a, int64_t batches) {
    a->batches = batches;
    SR_TRY(sr_new(&a->end, batches));
    return sr_new(&a->rows, batches);
}

static void forget_batches(sr_assignment *a) {
    sr_free(a->end);
    sr_free(a->rows);
    a->end = a->rows = NULL;
}

/* ---- packing the sequences of an update ---- */

typedef struct packer {
    sr_pick *pick, *from; /* from: a copy of the input */
    uint16_t *length;
    uint32_t *member;
    sr_plan *plan;
    sr_packing *packing;
    int64_t n;
} packer;

static void free_packer(packer *f) {
    sr_packing_free(f->packing);
    sr_plan_free(f->plan);
    sr_free(f->member);
    sr_free(f->length);
    sr_free(f->from);
}

static sr_status read_picks(packer *f) {
    SR_TRY(sr_new(&f->from, f->n));
    SR_TRY(sr_new(&f->length, f->n));
    SR_TRY(sr_new(&f->member, f->n));
    memcpy(f->from, f->pick, (size_t)f->n * sizeof *f->from);
    for (int64_t i = 0; i < f->n; i++) f->length[i] = (uint16_t)sr_pick_length(&f->pick[i]);
    return SR_OK;
}

static sr_status solve(packer *f, const sr_loader_opts *o) {
    sr_lengths lengths = {.data = f->length, .width = 2, .count = f->n};
    sr_pack_opts how = o->solve;
    if (how.max_seqs == SR_DEPTH_AUTO) how.max_seqs = 0;
    sr_histogram hist = {0};
    SR_TRY(sr_histogram_count(&hist, &lengths, o->examples.max_len, SR_LONG_ERROR));
    sr_status st = sr_pack_solve(&f->plan, &hist, &how);
    sr_histogram_free(&hist);
    if (st == SR_OK) st = sr_packing_new(&f->packing, f->plan, &lengths, o->examples.seed);
    return st;
}

static sr_status place(packer *f, int64_t *end, int64_t *packs, uint32_t key) {
    int64_t at = 0;
    *packs = 0;
    for (int64_t p = 0; p < f->plan->packs; p++) {
        int32_t count = 0;
        SR_TRY(sr_packing_at(f->packing, key, p, f->member, &count));
        for (int32_t i = 0; i < count; i++) f->pick[at++] = f->from[f->member[i]];
        if (count > 0) end[(*packs)++] = at;
    }
    return SR_OK;
}

/* Sorts n >= 1 picks into packs, by the solver and max_seqs of the options.
 *
 *   end  (n) pack p ends before pick[end[p]]
 *   key  of the random assignment among equal lengths
 *
 * Errors: those of sr_pack_solve(). */
static sr_status pack_picks(sr_pick *pick, int64_t n, int64_t *end, int64_t *packs,
                            const sr_loader_opts *opts, uint32_t key) {
    packer f = {.pick = pick, .n = n};
    sr_status st = read_picks(&f);
    if (st == SR_OK) st = solve(&f, opts);
    if (st == SR_OK) st = place(&f, end, packs, key);
    free_packer(&f);
    return st;
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

/* Fills the batches with their packs, in order. */
static void gather(sr_assignment *a, const packs *p, const int32_t *batch,
                   const sr_loader_opts *o) {
    for (int64_t i = 0; i < p->count; i++) {
        a->end[batch[i]] += p->end[i] - first_of(p, i);
        a->rows[batch[i]] += o->examples.max_len;
    }
    for (int64_t b = 0, at = 0; b < a->batches;
         b++) { /* the start of each batch; its end after the loop */
        int64_t n = a->end[b];
        a->end[b] = at;
        at += n;
    }
    for (int64_t i = 0; i < p->count; i++) {
        int64_t first = first_of(p, i), n = p->end[i] - first, *at = &a->end[batch[i]];
        if (n > 0) memcpy(a->pick + *at, p->pick + first, (size_t)n * sizeof *a->pick);
        *at += n;
    }
}

/* Shares given by an option are assigned by cost; otherwise a share is a run of batches. */
static sr_status choose_batches(sr_assignment *a, int32_t *batch, const double *cost, int32_t n,
                                const sr_loader_opts *o) {
    int32_t batches = (int32_t)a->batches;
    if (o->shares > 0 && batches % o->shares == 0)
        return sr_assign_shares(batch, &a->imbalance, cost, n, batches, (int32_t)o->shares,
                                o->balance);
    return sr_assign_packs(batch, &a->imbalance, cost, n, batches, o->balance);
}

static sr_status assign_packs(sr_assignment *a, const packs *p, const sr_loader_opts *o) {
    int32_t *batch;
    double *cost;
    if (p->count > INT32_MAX)
        return sr_fail(SR_EINVAL, "batch: an update of %" PRId64 " packs is too large", p->count);
    SR_TRY(make_batches(a, batches_for(p->count, o)));
    SR_TRY(sr_new(&cost, (size_t)p->count * 2)); /* and `batch` behind it */
    batch = (int32_t *)(cost + p->count);
    for (int64_t i = 0; i < p->count; i++) {
        int64_t first = first_of(p, i);
        cost[i] = cost_of(p->pick + first, p->end[i] - first, o);
    }
    sr_status st = choose_batches(a, batch, cost, (int32_t)p->count, o);
    if (st == SR_OK) gather(a, p, batch, o);
    sr_free(cost);
    a->packs = p->count;
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

/* Assigns the groups to batches: most expensive first to the cheapest batch, or as they come. */
static sr_status balance_groups(sr_assignment *a, ranked *rank, const sr_order *order,
                                const sr_loader_opts *o) {
    double *load, most = 0, all = 0;
    SR_TRY(sr_new(&load, a->batches));
    for (int64_t g = 0; g < order->groups; g++) {
        int64_t first = sr_order_group(order, g);
        rank[g].cost = cost_of(order->pick + first, order->group_end[g] - first, o);
        rank[g].group = g;
    }
    if (o->balance != SR_BALANCE_RANDOM) qsort(rank, (size_t)order->groups, sizeof *rank, by_cost);
    for (int64_t i = 0; i < order->groups; i++) {
        rank[i].batch = o->balance == SR_BALANCE_RANDOM
                            ? sr_balance_random(i, order->groups, a->batches)
                            : least_of(load, a->batches);
        load[rank[i].batch] += rank[i].cost;
        all += rank[i].cost;
    }
    for (int64_t b = 0; b < a->batches; b++) most = load[b] > most ? load[b] : most;
    a->imbalance = all > 0 ? most * (double)a->batches / all : 1;
    qsort(rank, (size_t)order->groups, sizeof *rank, by_batch);
    sr_free(load);
    return SR_OK;
}

/* Packs the sequences of each batch; *most becomes the largest number of packs. */
static sr_status pack_batches(sr_assignment *a, int64_t *most, const ranked *rank,
                              const sr_order *order, const sr_loader_opts *o, int64_t *pack_end) {
    int64_t at = 0, g = 0;
    *most = a->packs = 0;
    for (int64_t b = 0; b < a->batches; b++) {
        int64_t begin = at, n = 0;
        for (; g < order->groups && rank[g].batch == b; g++) {
            int64_t first = sr_order_group(order, rank[g].group);
            int64_t count = order->group_end[rank[g].group] - first;
            memcpy(a->pick + at, order->pick + first, (size_t)count * sizeof *a->pick);
            at += count;
        }
        if (at > begin)
            SR_TRY(pack_picks(a->pick + begin, at - begin, pack_end, &n, o,
                              (uint32_t)order->begin.drawn.updates));
        a->end[b] = at;
        a->rows[b] = n * o->examples.max_len;
        a->packs += n;
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
static sr_status assign_groups(sr_assignment *a, const sr_order *order, const sr_loader_opts *o,
                               int64_t batches, int64_t *pack_end) {
    ranked *rank;
    int64_t micro = o->micro > 0 ? o->micro : INT64_MAX - 1;
    SR_TRY(sr_new(&rank, order->groups));
    sr_status st = SR_OK;
    for (int64_t most = INT64_MAX; st == SR_OK && most > micro; batches++) {
        forget_batches(a);
        if (batches > order->groups) st = too_large(order->groups, o);
        if (st == SR_OK) st = make_batches(a, batches);
        if (st == SR_OK) st = balance_groups(a, rank, order, o);
        if (st == SR_OK) st = pack_batches(a, &most, rank, order, o, pack_end);
    }
    sr_free(rank);
    return st;
}

static sr_status assign_unpacked(sr_assignment *a, const sr_order *order, const sr_loader_opts *o) {
    int64_t *pack_end, n = 0;
    sr_pick *pick;
    SR_TRY(sr_new(&pack_end, order->sequences));
    sr_status st;
    SR_GO(done, st, sr_new(&pick, order->sequences));
    memcpy(pick, order->pick, (size_t)order->sequences * sizeof *pick);
    st = pack_picks(pick, order->sequences, pack_end, &n, o, (uint32_t)order->begin.drawn.updates);
    int64_t batches = st == SR_OK ? batches_for(n, o) : 0;
    if (st == SR_OK && (batches == 1 || order->groups == order->sequences))
        st = assign_packs(a, &(packs){pick, pack_end, n}, o);
    else if (st == SR_OK)
        st = assign_groups(a, order, o, smaller(batches, order->groups), pack_end);
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

static sr_status assign_rows(sr_assignment *a, const sr_order *order, const sr_loader_opts *o) {
    int64_t n = order->sequences, micro = o->micro > 0 ? o->micro : n, group = 0, b = -1, used = 0;
    int64_t least = batches_for(n, o), room = o->shares > 0 ? (n + least - 1) / least : micro;
    a->stride = o->examples.max_len;
    SR_TRY(make_batches(a, n)); /* at most */
    memcpy(a->pick, order->pick, (size_t)n * sizeof *a->pick);
    for (int64_t at = 0, k; at < n; at += k) {
        k = together(order, &group, at);
        if (k > micro) return too_large(order->groups, o);
        if (b < 0 || used + k > room) b++, used = 0;
        used += k;
        a->end[b] = at + k;
        a->rows[b] = used * a->stride;
    }
    a->batches = b + 1;
    a->packs = order->packs ? order->groups : n;
    return SR_OK;
}

/* One batch for each sequence, or for each group that must stay together. */
static sr_status assign_single(sr_assignment *a, const sr_order *order) {
    SR_TRY(make_batches(a, order->sequences)); /* at most */
    memcpy(a->pick, order->pick, (size_t)order->sequences * sizeof *a->pick);
    int64_t b = 0, group = 0;
    for (int64_t at = 0; at < order->sequences; b++) {
        at += together(order, &group, at);
        a->end[b] = at;
    }
    a->batches = b;
    a->packs = order->groups;
    return SR_OK;
}

/* ---- existing batches ---- */

static sr_status assign_batches(sr_assignment *a, const sr_order *order, const sr_loader_opts *o) {
    double most = 0, all = 0;
    int64_t rows = 0;
    SR_TRY(make_batches(a, order->groups));
    memcpy(a->pick, order->pick, (size_t)order->sequences * sizeof *a->pick);
    for (int64_t b = 0; b < order->groups; b++) {
        int64_t first = sr_order_group(order, b);
        double cost = cost_of(order->pick + first, order->group_end[b] - first, o);
        a->end[b] = order->group_end[b];
        rows += a->rows[b] = order->rows[b];
        most = cost > most ? cost : most;
        all += cost;
    }
    a->imbalance = all > 0 ? most * (double)order->groups / all : 1;
    a->packs = (rows + o->examples.max_len - 1) / o->examples.max_len;
    return SR_OK;
}

/* ---- any order ---- */

static sr_status assign(sr_assignment *a, const sr_order *order, const sr_loader_opts *o) {
    SR_TRY(sr_new(&a->pick, order->sequences));
    if (o->arrange == SR_PADDED) return assign_rows(a, order, o);
    if (o->arrange == SR_SINGLE) return assign_single(a, order);
    if (!order->packs) return assign_unpacked(a, order, o);
    if (order->rows != NULL) return assign_batches(a, order, o);
    return assign_packs(a, &(packs){order->pick, order->group_end, order->groups}, o);
}

sr_status sr_assign_order(sr_assignment *out, const sr_order *order, const sr_loader_opts *opts) {
    *out = (sr_assignment){.sequences = order->sequences, .imbalance = 1};
    sr_status st = assign(out, order, opts);
    if (st != SR_OK) {
        sr_assignment_free(out);
        return st;
    }
    out->shares = smaller(opts->shares > 0 ? opts->shares : SR_USUAL_SHARES, out->batches);
    return SR_OK;
}

void sr_assignment_free(sr_assignment *a) {
    sr_free(a->pick);
    forget_batches(a);
    *a = (sr_assignment){0};
}
