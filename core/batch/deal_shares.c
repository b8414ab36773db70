/* deal_shares.c - packs to shares first, then those of a share to its batches. */
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/batch/deal.h"

typedef struct split {
    const double *cost;
    int32_t *share; /* (n) of each pack */
    int32_t *mine;  /* (n) packs of one share, */
    int32_t *to;    /* (n) and their batches in it */
    double *part;   /* (n) and costs */
    double *load;   /* (batches) */
    int32_t *place; /* (shares) */
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

/* Orders shares so that runs of them, which ranks own, cost about the same: the costliest go to the
 * first place of the first half, of the second, of the second quarter, ... */
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

sr_status sr_deal_shares(int32_t *batch, double *imbalance, const double *cost, int32_t n,
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
