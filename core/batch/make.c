/* make.c - makes an ordered update: assigns its sequences to batches, and makes these. */
#include <inttypes.h>

#include "core/base/mem.h"
#include "core/base/thread.h"
#include "core/batch/deal.h"
#include "core/batch/feed.h"
#include "core/batch/part.h"
#include "core/batch/window.h"

static sr_status add_batch(sr_update *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                           int32_t stride, int64_t rows, int32_t share) {
    sr_batch *b;
    if (n > INT32_MAX / 64)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " sequences are too many", n);
    SR_TRY(sr_batch_make(&b, f->d, &f->collators, pick, (int32_t)n, stride, rows,
                         f->opts.examples.seed));
    b->share = share;
    return sr_update_add(u, b);
}

/* A batch that is made elsewhere: only its counts. */
static sr_status count_batch(sr_update *u, const sr_feed *f, const sr_deal *d, int64_t b) {
    const sr_pick *pick = d->pick + sr_deal_first(d, b);
    int64_t n = d->end[b] - sr_deal_first(d, b), tokens = 0;
    if (u->elsewhere == NULL) SR_TRY(sr_new(&u->elsewhere, f->collators.count + 1));
    for (int64_t i = 0; i < n; i++) tokens += sr_pick_length(&pick[i]);
    int64_t rows = d->rows[b] > tokens ? d->rows[b] : tokens;
    u->slots += (rows + SR_ROWS_UNIT - 1) / SR_ROWS_UNIT * SR_ROWS_UNIT;
    u->sequences += n;
    u->tokens += tokens;
    return sr_tally_add(u->elsewhere, &u->masked, f->d, &f->collators, pick, n);
}

/* Whether this process makes share `share`, from 0, of `shares`. */
static bool is_made(const sr_loader_opts *o, int32_t share, int64_t shares) {
    if (o->last_share > 0 && (share < o->first_share - 1 || share >= o->last_share)) return false;
    if (o->ranks < 2) return true;
    return share >= sr_part_first(shares, o->rank, o->ranks) &&
           share < sr_part_first(shares, o->rank + 1, o->ranks);
}

enum { POLL = 256 }; /* batches between two looks at the stop flag */

static sr_status make_batch(sr_update *u, const sr_feed *f, const sr_deal *d, int64_t b) {
    int64_t first = sr_deal_first(d, b);
    int32_t share = sr_deal_share(d, b);
    if (b % POLL == POLL - 1 && sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped on request");
    if (!is_made(&f->opts, share, d->shares)) return count_batch(u, f, d, b);
    return add_batch(u, f, d->pick + first, d->end[b] - first, d->stride, d->rows[b], share);
}

static sr_status fill(sr_update *u, const sr_feed *f, const sr_order *order) {
    sr_deal d;
    SR_TRY(sr_deal_order(&d, order, &f->opts));
    u->packs = d.packs;
    u->shares = (int32_t)d.shares;
    u->imbalance = d.imbalance;
    double mask = sr_course_at(&f->mask_rate, &order->begin.drawn);
    for (int64_t i = 0; mask > 0 && i < d.sequences; i++) d.pick[i].mask = mask;
    sr_status st = SR_OK;
    for (int64_t b = 0; st == SR_OK && b < d.batches; b++) st = make_batch(u, f, &d, b);
    sr_deal_free(&d);
    return st;
}

static sr_status make(sr_update **out, const sr_feed *f, const sr_order *order) {
    sr_update *u;
    SR_TRY(sr_new(&u, 1));
    u->imbalance = 1;
    u->packs = order->groups;
    u->shares = 1;
    sr_status st = order->sequences > 0 ? fill(u, f, order) : SR_OK;
    if (st != SR_OK) {
        sr_update_free(u);
        return st;
    }
    u->index = order->begin.drawn.updates;
    u->begin = order->begin;
    u->end = order->end;
    sr_update_weigh(u);
    *out = u;
    return SR_OK;
}

sr_status sr_feed_make(sr_update **out, const sr_feed *f, const sr_order *order) {
    *out = NULL;
    if (order->window == NULL) return make(out, f, order);
    sr_order own;
    SR_TRY(sr_window_order(&own, order->window, order->part, &f->opts));
    sr_status st = make(out, f, &own);
    sr_order_free(&own);
    return st;
}

/* ---- picks ---- */

static sr_status add_picks(sr_update *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                           sr_arrange how) {
    int64_t each = how == SR_SINGLE ? 1 : how == SR_PADDED && f->opts.micro > 0 ? f->opts.micro : n;
    int32_t stride = how == SR_PADDED ? f->opts.examples.max_len : 0;
    for (int64_t i = 0; i < n; i += each) {
        int64_t count = n - i < each ? n - i : each;
        SR_TRY(add_batch(u, f, pick + i, count, stride, count * stride, 0));
    }
    return SR_OK;
}

sr_status sr_feed_pick(sr_update **out, const sr_feed *f, const sr_pick *pick, int64_t n,
                       sr_arrange how) {
    *out = NULL;
    sr_update *u;
    SR_TRY(sr_new(&u, 1));
    u->imbalance = 1;
    u->shares = 1;
    sr_status st = add_picks(u, f, pick, n, how);
    if (st != SR_OK) {
        sr_update_free(u);
        return st;
    }
    sr_update_weigh(u);
    *out = u;
    return SR_OK;
}
