#include "core/batch/feed.h"

#include <inttypes.h>

#include "core/base/mem.h"

static sr_status check(const sr_feed *f) {
    const sr_loader_opts *o = &f->opts;
    if (o->packs < 0 || o->sequences < 0 || o->micro < 0 || o->epochs < 0 ||
        (o->packs == 0 && o->sequences == 0))
        return sr_fail(SR_EINVAL, "loader: packs (or sequences) of an update must be at least 1");
    if (o->packs > INT32_MAX || o->sequences > INT32_MAX || o->epochs > INT32_MAX)
        return sr_fail(SR_EINVAL, "loader: packs, sequences and epochs have a limit of %d",
                       INT32_MAX);
    if (o->threads < 0 || o->threads > 64 || o->prefetch < 0 || o->prefetch > 1024)
        return sr_fail(SR_EINVAL, "loader: threads are 0..64, prefetch 0..1024; given %d and %d",
                       o->threads, o->prefetch);
    return o->mask ? sr_masker_check(&f->masker) : SR_OK;
}

/* The saved plan outlives its owner: a copy through the text form. */
static sr_status keep_plan(sr_feed *f) {
    char *text;
    size_t size;
    if (f->opts.plan == NULL) return SR_OK;
    SR_TRY(sr_plan_print(&text, &size, f->opts.plan));
    sr_status st = sr_plan_parse(&f->plan, text, size, "plan");
    sr_free(text);
    f->opts.plan = f->plan;
    return st;
}

sr_status sr_feed_open(sr_feed *f) {
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->fixed = f->d->kind == SR_DATA_EXAMPLES;
    f->masker.seed = f->opts.table.seed;
    f->masker.prob = f->opts.mask_prob;
    f->masker.max_predictions = f->opts.mask_max;
    f->masker.whole_word = f->opts.whole_word;
    SR_TRY(keep_plan(f));
    SR_TRY(sr_masker_for(&f->masker, &f->continues, f->d->vocab));
    return check(f);
}

void sr_feed_close(sr_feed *f) {
    for (int i = 0; i < SR_FEED_EPOCHS; i++) sr_epoch_release(f->epoch[i]);
    sr_free(f->continues);
    sr_plan_free(f->plan);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- epochs at hand ---- */

/* Moves the epoch at `i` to the front.  The lock is held. */
static sr_epoch *touch(sr_feed *f, int i) {
    sr_epoch *e = f->epoch[i];
    for (; i > 0; i--) f->epoch[i] = f->epoch[i - 1];
    f->epoch[0] = e;
    return sr_epoch_retain(e);
}

static int find(const sr_feed *f, uint32_t epoch) {
    for (int i = 0; i < SR_FEED_EPOCHS; i++)
        if (f->epoch[i] != NULL && f->epoch[i]->epoch == epoch) return i;
    return -1;
}

sr_status sr_feed_epoch(sr_epoch **out, sr_feed *f, uint32_t epoch, sr_pool *pool) {
    *out = NULL;
    if (f->fixed) epoch = 0;
    pthread_mutex_lock(&f->lock);
    int at;
    while ((at = find(f, epoch)) < 0 && f->building) pthread_cond_wait(&f->changed, &f->lock);
    if (at >= 0) {
        *out = touch(f, at);
        pthread_mutex_unlock(&f->lock);
        return SR_OK;
    }
    f->building = true;
    pthread_mutex_unlock(&f->lock);
    sr_table_opts table = f->opts.table;
    table.epoch = epoch;
    sr_epoch *e;
    sr_status st = sr_epoch_build(&e, f->d, &table, &f->opts.solve, f->opts.plan, pool);
    pthread_mutex_lock(&f->lock);
    f->building = false;
    if (st == SR_OK) {
        sr_epoch_release(f->epoch[SR_FEED_EPOCHS - 1]);
        f->epoch[SR_FEED_EPOCHS - 1] = e;
        *out = touch(f, SR_FEED_EPOCHS - 1);
    }
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return st;
}

/* ---- orders ---- */

static bool over(const sr_feed *f, uint32_t epoch) {
    return f->opts.epochs > 0 && epoch - f->opts.table.epoch >= (uint64_t)f->opts.epochs;
}

/* Takes up to `want` packs at the cursor, all of one epoch. */
static sr_status take_run(sr_order *order, sr_feed *f, sr_cursor *c, int64_t *want) {
    if ((order->runs & (order->runs - 1)) == 0)
        SR_TRY(sr_grow(&order->run, order->runs == 0 ? 1 : order->runs * 2));
    sr_epoch *e;
    SR_TRY(sr_feed_epoch(&e, f, c->epoch, NULL));
    int64_t left = e->packs - c->pack, n = left < *want ? left : *want;
    order->run[order->runs++] =
        (sr_run_of_packs){.epoch = e, .number = c->epoch, .first = c->pack, .count = n};
    *want -= n;
    c->pack += n;
    if (c->pack == e->packs) {
        c->epoch++;
        c->pack = 0;
    }
    return SR_OK;
}

sr_status sr_feed_order(sr_order *order, sr_feed *f, sr_cursor *cursor) {
    *order = (sr_order){.index = cursor->update, .begin = *cursor};
    sr_cursor c = *cursor;
    int64_t want = c.packs;
    sr_status st = SR_OK;
    while (st == SR_OK && want > 0 && !over(f, c.epoch)) st = take_run(order, f, &c, &want);
    if (st != SR_OK) {
        sr_order_free(order);
        return st;
    }
    if (order->runs > 0) c.update++;
    order->end = *cursor = c;
    return SR_OK;
}

void sr_order_free(sr_order *order) {
    for (int64_t i = 0; i < order->runs; i++) sr_epoch_release(order->run[i].epoch);
    sr_free(order->run);
    *order = (sr_order){0};
}

/* ---- making ---- */

/* Sequences that wait to become a batch. */
typedef struct gather {
    sr_pick *pick;
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
            (sr_pick){.table = run->epoch->table, .uid = uids[i], .epoch = run->number};
    g->packs++;
    return SR_OK;
}

static sr_status add_batch(sr_batches *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                           int32_t stride, int64_t rows) {
    sr_batch *b;
    if (n > INT32_MAX / 64)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " sequences are too many", n);
    const sr_masker *masker = f->opts.mask ? &f->masker : NULL;
    SR_TRY(sr_batch_make(&b, f->d, masker, pick, (int32_t)n, stride, rows, f->opts.table.seed));
    return sr_batches_add(u, b);
}

/* Batches of `micro` rows of one sequence each. */
static sr_status add_padded(sr_batches *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                            int64_t micro) {
    int32_t len = f->opts.table.max_len;
    sr_status st = SR_OK;
    for (int64_t i = 0; st == SR_OK && i < n; i += micro) {
        int64_t rows = n - i < micro ? n - i : micro;
        st = add_batch(u, f, pick + i, rows, len, rows * len);
    }
    return st;
}

static sr_status arrange(sr_batches *u, const sr_feed *f, const sr_pick *pick, int64_t n,
                         int64_t packs, sr_arrange how) {
    int64_t micro = f->opts.micro > 0 ? f->opts.micro : INT64_MAX / 2;
    sr_status st = SR_OK;
    if (n == 0) return SR_OK;
    if (how == SR_PACKED) return add_batch(u, f, pick, n, 0, packs * f->opts.table.max_len);
    if (how == SR_PADDED) return add_padded(u, f, pick, n, micro < n ? micro : n);
    for (int64_t i = 0; st == SR_OK && i < n; i++) st = add_batch(u, f, pick + i, 1, 0, 0);
    return st;
}

/* Packed batches are cut every `micro` packs; the other ways count sequences, not packs. */
static sr_status fill(sr_batches *u, gather *g, const sr_feed *f, const sr_order *order,
                      uint32_t *uids) {
    int64_t micro = f->opts.arrange == SR_PACKED ? f->opts.micro : 0;
    for (int64_t r = 0; r < order->runs; r++) {
        const sr_run_of_packs *run = &order->run[r];
        for (int64_t i = 0; i < run->count; i++) {
            SR_TRY(gather_pack(g, run, run->first + i, uids));
            if (g->packs != micro) continue;
            SR_TRY(arrange(u, f, g->pick, g->count, g->packs, f->opts.arrange));
            g->count = g->packs = 0;
        }
        u->packs += run->count;
    }
    return arrange(u, f, g->pick, g->count, g->packs, f->opts.arrange);
}

static int32_t deepest(const sr_order *order) {
    int32_t most = 1;
    for (int64_t r = 0; r < order->runs; r++) {
        int32_t n = sr_packing_deepest(order->run[r].epoch->packing);
        if (n > most) most = n;
    }
    return most;
}

sr_status sr_feed_make(sr_batches **out, const sr_feed *f, const sr_order *order) {
    *out = NULL;
    sr_batches *u;
    SR_TRY(sr_new(&u, 1));
    gather g = {0};
    uint32_t *uids;
    sr_status st = sr_new(&uids, deepest(order));
    if (st == SR_OK) st = fill(u, &g, f, order, uids);
    sr_free(uids);
    sr_free(g.pick);
    if (st != SR_OK) {
        sr_batches_free(u);
        return st;
    }
    u->index = order->index;
    u->begin = order->begin;
    u->end = order->end;
    sr_batches_weigh(u, f->opts.mean);
    *out = u;
    return SR_OK;
}

sr_status sr_feed_pick(sr_batches **out, const sr_feed *f, const sr_pick *pick, int64_t n,
                       sr_arrange how) {
    *out = NULL;
    sr_batches *u;
    SR_TRY(sr_new(&u, 1));
    sr_status st = arrange(u, f, pick, n, 0, how);
    if (st != SR_OK) {
        sr_batches_free(u);
        return st;
    }
    sr_batches_weigh(u, f->opts.mean);
    *out = u;
    return SR_OK;
}
