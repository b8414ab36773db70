#include "core/batch/feed.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

static sr_status check(const sr_feed *f) {
    const sr_loader_opts *o = &f->opts;
    if (o->packs < 0 || o->sequences < 0 || o->micro < 0 || o->epochs < 0 ||
        (o->by != SR_BY_ORDER && o->packs == 0 && o->sequences == 0))
        return sr_fail(SR_EINVAL, "loader: packs (or sequences) of an update must be at least 1");
    if (o->packs > INT32_MAX || o->sequences > INT32_MAX || o->epochs > INT32_MAX)
        return sr_fail(SR_EINVAL, "loader: packs, sequences and epochs must be at most %d",
                       INT32_MAX);
    if (!(o->per_square >= 0 && o->per_square <= 1))
        return sr_fail(SR_EINVAL, "loader: per_square is %g; must be 0 to 1", o->per_square);
    if (o->by == SR_BY_ORDER && (o->packs > 0 || o->sequences > 0 || o->epochs > 0))
        return sr_fail(SR_EINVAL,
                       "loader: by order, each order determines its update; leave out packs, "
                       "sequences and epochs");
    if (o->by == SR_BY_SEQUENCES && o->packs > 0)
        return sr_fail(SR_EINVAL,
                       "loader: by sequences, an update has a number of sequences, not of packs; "
                       "set sequences");
    if (o->shares < 0 || o->shares > SR_UPDATE_SHARES)
        return sr_fail(SR_EINVAL, "loader: shares must be 0..%d; given %" PRId64, SR_UPDATE_SHARES,
                       o->shares);
    if (o->last_share > 0 && (o->first_share < 1 || o->first_share > o->last_share))
        return sr_fail(SR_EINVAL, "loader: share_range is {first, last}, from 1; given {%d, %d}",
                       o->first_share, o->last_share);
    if (o->ranks < 0 || o->rank < 0 || (o->ranks > 0 && o->rank >= o->ranks))
        return sr_fail(SR_EINVAL, "loader: rank must be below ranks; given %d of %d", o->rank,
                       o->ranks);
    if (o->threads < 0 || o->threads > 64 || o->prefetch < 0 || o->prefetch > 1024)
        return sr_fail(SR_EINVAL, "loader: threads are 0..64, prefetch 0..1024; given %d and %d",
                       o->threads, o->prefetch);
    return SR_OK;
}

static sr_status keep_stages(sr_feed *f) {
    sr_loader_opts *o = &f->opts;
    if (o->stages > 0 && o->by == SR_BY_ORDER)
        return sr_fail(SR_EINVAL, "loader: by order, each order determines its update; leave out "
                                  "stages");
    SR_TRY(sr_stages_check(o->stage, o->stages, f->d, &o->examples));
    if (o->stages > 0) SR_TRY(sr_stages_copy(&f->stage, o->stage, o->stages));
    o->stage = f->stage;
    return SR_OK;
}

static sr_status open_collators(sr_feed *f) {
    sr_loader_opts *o = &f->opts;
    sr_target_opts usual[2];
    const sr_target_opts *target = o->target;
    int n = o->targets;
    if (target == NULL) {
        n = sr_targets_usual(usual, f->d, o->mask, o->examples.nsp, o->mean);
        target = usual;
    }
    SR_TRY(sr_collators_open(&f->collators, f->d, &f->masker, target, n));
    f->collators.keep_ids = o->keep_ids;
    if (f->collators.late && o->last_share > 0)
        return sr_fail(SR_EINVAL, "loader: a target that is made in Lua needs the whole update; "
                                  "leave out share_range, or make it from a column");
    if (f->collators.late) o->ranks = 0; /* made from all batches of an update */
    o->target = NULL;                    /* owned by the caller */
    return SR_OK;
}

/* The caller's string may not live as long as the loader; an unknown solver fails with the first
 * epoch. */
static void keep_solver(sr_feed *f) {
    const char **name = &f->opts.solve.solver, *known;
    for (int i = 0; *name != NULL && (known = sr_pack_solver(i)) != NULL; i++)
        if (strcmp(known, *name) == 0) *name = known;
}

sr_status sr_feed_open(sr_feed *f) {
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->fixed = f->d->kind == SR_DATA_EXAMPLES;
    f->masker.seed = f->opts.examples.seed;
    f->masker.prob = f->opts.mask_prob;
    f->masker.max_predictions = f->opts.mask_max;
    f->masker.whole_word = f->opts.whole_word;
    if (f->opts.plan != NULL) f->plan = sr_plan_retain(f->opts.plan);
    SR_TRY(sr_masker_for(&f->masker, &f->continues, f->d->vocab));
    keep_solver(f);
    SR_TRY(check(f));
    SR_TRY(keep_stages(f));
    SR_TRY(sr_course_check(&f->opts.mask_rate, "mask: rates", f->opts.mask_prob));
    SR_TRY(sr_course_copy(&f->mask_rate, &f->opts.mask_rate));
    memset(&f->opts.mask_rate, 0, sizeof f->opts.mask_rate); /* owned by the caller */
    return open_collators(f);
}

void sr_feed_close(sr_feed *f) {
    for (int i = 0; i < SR_FEED_EPOCHS; i++) sr_epoch_release(f->epoch[i]);
    sr_collators_close(&f->collators);
    sr_free(f->continues);
    sr_course_free(&f->mask_rate);
    sr_plan_free(f->plan);
    if (f->stage != NULL) sr_stages_free(f->stage, f->opts.stages);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- cached epochs ---- */

/* Moves the epoch at `i` to the front.  The lock is held. */
static sr_epoch *touch(sr_feed *f, int i) {
    sr_epoch *e = f->epoch[i];
    for (; i > 0; i--) f->epoch[i] = f->epoch[i - 1];
    f->epoch[0] = e;
    return sr_epoch_retain(e);
}

static int find(const sr_feed *f, uint32_t epoch, int stage) {
    for (int i = 0; i < SR_FEED_EPOCHS; i++)
        if (f->epoch[i] != NULL && f->epoch[i]->epoch == epoch && f->epoch[i]->stage == stage)
            return i;
    return -1;
}

/* Warns once that a given plan is no longer used. */
static void tell_misfit(sr_feed *f, const sr_epoch *e) {
    if (f->plan == NULL || f->told) return;
    if (e->saved) f->fitted = true;
    if (e->saved || !f->fitted || strcmp(f->plan->solver, e->plan->solver) == 0) return;
    f->told = true;
    sr_log(SR_LOG_WARN,
           "loader: the given plan (%s) does not fit the lengths of epoch %" PRIu32
           "; that epoch is packed by %s",
           f->plan->solver, e->epoch, e->plan->solver);
}

static sr_status build(sr_epoch **out, sr_feed *f, uint32_t epoch, int stage, sr_threads *threads) {
    const sr_loader_opts *o = &f->opts;
    sr_epoch_opts opts = {.examples = o->examples,
                          .solve = &o->solve,
                          .saved = f->plan,
                          .stage = o->stages > 0 ? &f->stage[stage] : NULL,
                          .bind = o->by == SR_BY_PACKS};
    opts.examples.epoch = epoch;
    if (opts.stage != NULL && opts.stage->text)
        opts.examples.short_seq_prob = opts.stage->short_seq_prob;
    SR_TRY(sr_epoch_build(out, f->d, &opts, threads));
    (*out)->stage = stage;
    return SR_OK;
}

/* The first of the stages that share this one's sequences (and plan). */
static int first_alike(const sr_feed *f, int stage) {
    if (f->opts.by == SR_BY_PACKS) return stage;
    while (stage > 0 && sr_stage_same_set(&f->stage[stage - 1], &f->stage[stage])) stage--;
    return stage;
}

sr_status sr_feed_epoch(sr_epoch **out, sr_feed *f, uint32_t epoch, int stage,
                        sr_threads *threads) {
    *out = NULL;
    if (f->fixed) epoch = 0;
    stage = first_alike(f, stage);
    pthread_mutex_lock(&f->lock);
    int at;
    while ((at = find(f, epoch, stage)) < 0 && f->building)
        pthread_cond_wait(&f->changed, &f->lock);
    if (at >= 0) {
        *out = touch(f, at);
        pthread_mutex_unlock(&f->lock);
        return SR_OK;
    }
    f->building = true;
    pthread_mutex_unlock(&f->lock);
    sr_epoch *e;
    sr_status st = build(&e, f, epoch, stage, threads);
    pthread_mutex_lock(&f->lock);
    f->building = false;
    if (st == SR_OK) {
        tell_misfit(f, e);
        sr_epoch_release(f->epoch[SR_FEED_EPOCHS - 1]);
        f->epoch[SR_FEED_EPOCHS - 1] = e;
        *out = touch(f, SR_FEED_EPOCHS - 1);
    }
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return st;
}
