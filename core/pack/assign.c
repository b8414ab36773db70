#include "core/pack/assign.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"

const char *const sr_balance_names[] = {"cost", "random", NULL};

enum { MOST_WORK = 20000000 }; /* comparisons of pairs: tens of milliseconds */

double sr_pack_cost(const uint16_t *lengths, int32_t n, double per_token, double per_square) {
    double tokens = 0, squares = 0;
    for (int32_t i = 0; i < n; i++) {
        tokens += lengths[i];
        squares += (double)lengths[i] * lengths[i];
    }
    return per_token * tokens + per_square * squares;
}

typedef struct ranked {
    double cost;
    int32_t pack;
} ranked;

static int by_cost(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->pack < y->pack ? -1 : x->pack > y->pack;
}

/* Groups as a heap: the cheapest first, ties by index. */
typedef struct heap {
    int32_t *group;
    int32_t count;
    const double *load;
} heap;

static bool cheaper(const heap *h, int32_t i, int32_t j) {
    int32_t a = h->group[i], b = h->group[j];
    return h->load[a] < h->load[b] || (h->load[a] == h->load[b] && a < b);
}

/* Restores the order after the first has changed. */
static void sink(heap *h) {
    for (int32_t i = 0, child = 1; child < h->count; i = child, child = 2 * i + 1) {
        if (child + 1 < h->count && cheaper(h, child + 1, child)) child++;
        if (!cheaper(h, child, i)) return;
        int32_t group = h->group[i];
        h->group[i] = h->group[child];
        h->group[child] = group;
    }
}

/* Assigns the most expensive packs first, each to the cheapest group that is not full; `room` has
 * two numbers for each group. */
static void assign_cheapest(int32_t *group, double *load, int32_t *room, const ranked *rank,
                            int32_t n, int32_t groups) {
    heap open = {.group = room + groups, .count = groups, .load = load};
    for (int32_t g = 0; g < groups; g++) room[g] = n / groups, open.group[g] = g;
    int32_t more = n % groups; /* groups that get one more */
    for (int32_t i = 0; i < n; i++) {
        int32_t best = open.group[0];
        while (room[best] < 0 || (room[best] == 0 && more == 0)) { /* it is full, and stays so */
            open.group[0] = open.group[--open.count];
            sink(&open);
            best = open.group[0];
        }
        if (room[best]-- == 0) more--;
        group[rank[i].pack] = best;
        load[best] += rank[i].cost;
        sink(&open);
    }
}

/* Assigns in the order given. */
static void assign_random(int32_t *group, double *load, const double *cost, int32_t n,
                          int32_t groups) {
    for (int32_t i = 0; i < n; i++) {
        group[i] = (int32_t)sr_balance_random(i, n, groups);
        load[group[i]] += cost[i];
    }
}

static int32_t heaviest(const double *load, int32_t groups) {
    int32_t best = 0;
    for (int32_t g = 1; g < groups; g++)
        if (load[g] > load[best]) best = g;
    return best;
}

/* Swaps a pack of the most expensive group with one of another group so that both cost less than it
 * did; false if no swap does. */
static bool swap_down(int32_t *group, double *load, const double *cost, int32_t n, int32_t groups) {
    int32_t top = heaviest(load, groups), a = -1, b = -1;
    double most = load[top], least = most * (1 - 1e-12);
    for (int32_t i = 0; i < n; i++) {
        if (group[i] != top) continue;
        for (int32_t j = 0; j < n; j++) {
            double moved = cost[i] - cost[j], left = most - moved, other = load[group[j]] + moved;
            if (moved <= 0 || left >= least || other >= least || group[j] == top) continue;
            least = left > other ? left : other, a = i, b = j;
        }
    }
    if (a < 0) return false;
    int32_t to = group[b];
    load[top] -= cost[a] - cost[b];
    load[to] += cost[a] - cost[b];
    group[a] = to, group[b] = top;
    return true;
}

static void assign_by_cost(int32_t *group, double *load, int32_t *room, ranked *rank,
                           const double *cost, int32_t n, int32_t groups) {
    for (int32_t i = 0; i < n; i++) rank[i] = (ranked){cost[i], i};
    qsort(rank, (size_t)n, sizeof *rank, by_cost);
    assign_cheapest(group, load, room, rank, n, groups);
    int64_t work = (int64_t)n * (n / groups + 1); /* per round of swaps */
    for (int64_t spent = 0; spent < MOST_WORK && swap_down(group, load, cost, n, groups);)
        spent += work;
}

sr_status sr_assign_packs(int32_t *group, double *imbalance, const double *cost, int32_t n,
                          int32_t groups, sr_balance how) {
    double total = 0, *load;
    int32_t *room;
    ranked *rank;
    if (groups < 1 || n < 0)
        return sr_fail(SR_EINVAL, "pack: %d packs for %d groups; there must be at least 1 group", n,
                       groups);
    for (int32_t i = 0; i < n; i++) {
        if (!(cost[i] >= 0 && cost[i] < INFINITY))
            return sr_fail(SR_EINVAL, "pack: the cost of pack %d must be a number >= 0", i);
        total += cost[i];
    }
    SR_TRY(sr_new(&load, groups));
    sr_status st;
    SR_GO(no_room, st, sr_new(&room, (size_t)groups * 2));
    SR_GO(no_rank, st, sr_new(&rank, n + 1));
    if (how == SR_BALANCE_RANDOM)
        assign_random(group, load, cost, n, groups);
    else
        assign_by_cost(group, load, room, rank, cost, n, groups);
    if (imbalance != NULL)
        *imbalance = total > 0 ? load[heaviest(load, groups)] * groups / total : 1;
    sr_free(rank);
no_rank:
    sr_free(room);
no_room:
    sr_free(load);
    return st;
}

/* ---- shares: packs to shares first, then those of a share to its batches ---- */

typedef struct split {
    const double *cost;
    int32_t *share; /* (n) of each pack */
    int32_t *mine;  /* (n) packs of one share */
    int32_t *to;    /* (n) the batch of each, in the share */
    double *part;   /* (n) the cost of each */
    double *load;   /* (batches) */
    int32_t *place; /* (shares) position of each in the order of shares */
    int32_t n, batches, shares;
    sr_balance how;
} split;

static uint32_t reversed(uint32_t i, uint32_t most) {
    uint32_t r = 0;
    for (uint32_t bit = 1; bit < most; bit <<= 1, i >>= 1) r = r << 1 | (i & 1);
    return r;
}

static int32_t costliest(const split *s) {
    int32_t best = -1;
    for (int32_t i = 0; i < s->shares; i++)
        if (s->place[i] < 0 && (best < 0 || s->load[i] > s->load[best])) best = i;
    return best;
}

/* Orders shares so that the runs of them that ranks compute cost about the same: the costliest go
 * to the first place of the first half, of the second, of the second quarter, ... */
static void place_shares(split *s) {
    for (int32_t i = 0; i < s->n; i++) s->load[s->share[i]] += s->cost[i];
    for (int32_t i = 0; i < s->shares; i++) s->place[i] = s->n % s->shares == 0 ? i : -1;
    uint32_t shares = (uint32_t)s->shares;
    for (uint32_t i = 0; s->n % s->shares != 0 && i < 2 * shares; i++) {
        uint32_t at = reversed(i, shares);
        int32_t next = at < shares ? costliest(s) : -1;
        if (next >= 0) s->place[next] = (int32_t)at;
    }
}

static sr_status divide(split *s, int32_t *batch, int32_t share) {
    int32_t m = 0, each = s->batches / s->shares;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->share[i] != share) continue;
        s->mine[m] = i;
        s->part[m++] = s->cost[i];
    }
    SR_TRY(sr_assign_packs(s->to, NULL, s->part, m, each, s->how));
    for (int32_t i = 0; i < m; i++) batch[s->mine[i]] = s->place[share] * each + s->to[i];
    return SR_OK;
}

static double imbalance_of(split *s, const int32_t *batch) {
    double most = 0, all = 0;
    for (int32_t b = 0; b < s->batches; b++) s->load[b] = 0;
    for (int32_t i = 0; i < s->n; i++) s->load[batch[i]] += s->cost[i], all += s->cost[i];
    for (int32_t b = 0; b < s->batches; b++) most = s->load[b] > most ? s->load[b] : most;
    return all > 0 ? most * s->batches / all : 1;
}

sr_status sr_assign_shares(int32_t *batch, double *imbalance, const double *cost, int32_t n,
                           int32_t batches, int32_t shares, sr_balance how) {
    split s = {.cost = cost, .n = n, .batches = batches, .shares = shares, .how = how};
    SR_TRY(sr_new(&s.load, (size_t)batches + (size_t)n));
    s.part = s.load + batches;
    sr_status st;
    SR_GO(done, st, sr_new(&s.share, (size_t)n * 3 + (size_t)shares));
    s.mine = s.share + n;
    s.to = s.mine + n;
    s.place = s.to + n;
    st = sr_assign_packs(s.share, NULL, cost, n, shares, how);
    if (st == SR_OK) place_shares(&s);
    for (int32_t i = 0; st == SR_OK && i < shares; i++) st = divide(&s, batch, i);
    if (st == SR_OK) *imbalance = imbalance_of(&s, batch);
    sr_free(s.share);
done:
    sr_free(s.load);
    return st;
}
