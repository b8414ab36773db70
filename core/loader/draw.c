/* draw.c - the order of the update at a cursor: packs or sequences of an epoch, in keyed order. */
#include "core/base/mem.h"
#include "core/base/permute.h"
#include "core/loader/fetcher.h"

static bool over(const sr_fetcher *f, uint32_t epoch) {
    return f->opts.epochs > 0 && epoch - f->opts.examples.epoch >= (uint64_t)f->opts.epochs;
}

/* What is drawn from: an epoch in a pass, which is the epoch word of the keys. */
typedef struct draw {
    const sr_epoch *e;
    uint32_t pass;
    int32_t limit;
} draw;

static sr_pick pick_of(const draw *d, int64_t i) {
    return (sr_pick){.examples = d->e->examples,
                     .uid = sr_epoch_uid(d->e, i),
                     .epoch = d->pass,
                     .limit = d->limit};
}

static sr_status add_packs(sr_order *o, const draw *d, int64_t first, int64_t n) {
    const sr_packing *packing = d->e->packing;
    int32_t deepest = sr_packing_deepest(packing);
    sr_pick *pick;
    SR_TRY(sr_new(&pick, (size_t)deepest * 2 + 1));
    uint32_t *member = (uint32_t *)(pick + deepest);
    sr_status st = SR_OK;
    for (int64_t i = first; st == SR_OK && i < first + n; i++) {
        int32_t count = 0;
        st = sr_packing_at(packing, d->pass, i, member, &count);
        for (int32_t k = 0; k < count; k++) pick[k] = pick_of(d, member[k]);
        if (st == SR_OK) st = sr_order_add(o, pick, count);
    }
    sr_free(pick);
    return st;
}

static sr_status add_sequences(sr_order *o, const draw *d, int64_t first, int64_t n) {
    sr_domain all = sr_domain_of((uint32_t)d->e->count);
    uint64_t seed = d->e->examples->opts.seed;
    for (int64_t i = first; i < first + n; i++) {
        sr_pick pick =
            pick_of(d, sr_permute(&all, (uint32_t)i, seed, SR_PURPOSE_SEQUENCE_ORDER, 0, d->pass));
        SR_TRY(sr_order_add(o, &pick, 1));
    }
    return SR_OK;
}

/* Appends up to *want packs or sequences at the cursor, all of one epoch. */
static sr_status take(sr_order *o, sr_fetcher *f, sr_cursor *c, int64_t *want) {
    sr_epoch *e;
    SR_TRY(sr_fetcher_epoch(&e, f, c->epoch, c->stage, NULL));
    bool packs = f->opts.by == SR_BY_PACKS;
    int64_t all = packs ? e->packs : e->count;
    int64_t left = all - c->position, n = left < *want ? left : *want;
    sr_status st = sr_order_keep(o, e);
    draw d = {e, c->epoch, f->opts.stages > 0 ? f->stage[c->stage].max_len : 0};
    if (st == SR_OK) st = (packs ? add_packs : add_sequences)(o, &d, c->position, n);
    sr_epoch_release(e);
    *want -= n;
    c->position += n;
    if (c->position == all) {
        c->epoch++;
        c->position = 0;
    }
    return st;
}

/* Enters the stage that is due: in the same pass when it draws from the same sequences. */
static void enter_stage(const sr_fetcher *f, sr_cursor *c) {
    int due = sr_stage_due(f->stage, f->opts.stages, &c->drawn);
    if (due == c->stage) return;
    bool goes_on =
        f->opts.by == SR_BY_SEQUENCES && sr_stage_same_set(&f->stage[due], &f->stage[c->stage]);
    c->stage = due;
    if (goes_on || c->position == 0) return;
    c->epoch++;
    c->position = 0;
}

sr_status sr_fetcher_order(sr_order *order, sr_fetcher *f, sr_cursor *cursor) {
    *order = (sr_order){.packs = f->opts.by == SR_BY_PACKS, .begin = *cursor};
    sr_cursor c = *cursor;
    enter_stage(f, &c);
    int64_t want = order->packs ? c.packs : f->opts.sequences;
    sr_status st = SR_OK;
    while (st == SR_OK && want > 0 && !over(f, c.epoch)) st = take(order, f, &c, &want);
    if (st != SR_OK) {
        sr_order_free(order);
        return st;
    }
    if (order->groups > 0) sr_order_count(order, &c.drawn);
    order->end = *cursor = c;
    return SR_OK;
}
