#include "core/loader/fetcher.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/base/thread.h"
#include "core/loader/assign.h"

static sr_status check(const sr_fetcher *f) {
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

static sr_status keep_stages(sr_fetcher *f) {
    sr_loader_opts *o = &f->opts;
    if (o->stages > 0 && o->by == SR_BY_ORDER)
        return sr_fail(SR_EINVAL, "loader: by order, each order determines its update; leave out "
                                  "stages");
    SR_TRY(sr_stages_check(o->stage, o->stages, f->d, &o->examples));
    if (o->stages > 0) SR_TRY(sr_stages_copy(&f->stage, o->stage, o->stages));
    o->stage = f->stage;
    return SR_OK;
}

static sr_status open_collators(sr_fetcher *f) {
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
    if (f->collators.deferred && o->last_share > 0)
        return sr_fail(SR_EINVAL, "loader: a target that is made in Lua needs the whole update; "
                                  "leave out share_range, or make it from a column");
    if (f->collators.deferred) o->ranks = 0; /* made from all batches of an update */
    o->target = NULL;                        /* owned by the caller */
    return SR_OK;
}

/* The caller's string may not live as long as the loader; an unknown solver fails with the first
 * epoch. */
static void keep_solver(sr_fetcher *f) {
    const char **name = &f->opts.solve.solver, *known;
    for (int i = 0; *name != NULL && (known = sr_pack_solver(i)) != NULL; i++)
        if (strcmp(known, *name) == 0) *name = known;
}

sr_status sr_fetcher_open(sr_fetcher *f) {
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->fixed = f->d->kind == SR_DATA_EXAMPLES;
    f->masker.seed = f->opts.examples.seed;
    f->masker.prob = f->opts.mask_prob;
    f->masker.max_predictions = f->opts.mask_max;
    f->masker.whole_word = f->opts.whole_word;
    if (f->opts.plan != NULL) f->plan = sr_plan_retain(f->opts.plan);
    SR_TRY(sr_masker_open(&f->masker, f->d));
    SR_TRY(sr_concept_masks_copy(&f->masker.concepts, &f->opts.concepts));
    keep_solver(f);
    SR_TRY(check(f));
    SR_TRY(keep_stages(f));
    SR_TRY(sr_schedule_check(&f->opts.mask_rate, "mask: rates", f->opts.mask_prob));
    SR_TRY(sr_schedule_copy(&f->mask_rate, &f->opts.mask_rate));
    memset(&f->opts.mask_rate, 0, sizeof f->opts.mask_rate); /* owned by the caller */
    f->opts.concepts = (sr_concept_masks){0};
    return open_collators(f);
}

void sr_fetcher_close(sr_fetcher *f) {
    for (int i = 0; i < SR_FETCHER_EPOCHS; i++) sr_epoch_release(f->epoch[i]);
    sr_collators_close(&f->collators);
    sr_concept_masks_free(&f->masker.concepts);
    sr_masker_close(&f->masker);
    sr_schedule_free(&f->mask_rate);
    sr_plan_free(f->plan);
    if (f->stage != NULL) sr_stages_free(f->stage, f->opts.stages);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- cached epochs ---- */

/* Moves the epoch at `i` to the front.  The lock is held. */
static sr_epoch *touch(sr_fetcher *f, int i) {
    sr_epoch *e = f->epoch[i];
    for (; i > 0; i--) f->epoch[i] = f->epoch[i - 1];
    f->epoch[0] = e;
    return sr_epoch_retain(e);
}

static int find(const sr_fetcher *f, uint32_t epoch, int stage) {
    for (int i = 0; i < SR_FETCHER_EPOCHS; i++)
        if (f->epoch[i] != NULL && f->epoch[i]->epoch == epoch && f->epoch[i]->stage == stage)
            return i;
    return -1;
}

/* Warns once that a given plan is no longer used. */
static void warn_misfit(sr_fetcher *f, const sr_epoch *e) {
    if (f->plan == NULL || f->told) return;
    if (e->saved) f->fitted = true;
    if (e->saved || !f->fitted || strcmp(f->plan->solver, e->plan->solver) == 0) return;
    f->told = true;
    sr_log(SR_LOG_WARN,
           "loader: the given plan (%s) does not fit the lengths of epoch %" PRIu32
           "; that epoch is packed by %s",
           f->plan->solver, e->epoch, e->plan->solver);
}

static sr_status build(sr_epoch **out, sr_fetcher *f, uint32_t epoch, int stage,
                       sr_threads *threads) {
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
static int first_alike(const sr_fetcher *f, int stage) {
    if (f->opts.by == SR_BY_PACKS) return stage;
    while (stage > 0 && sr_stage_same_set(&f->stage[stage - 1], &f->stage[stage])) stage--;
    return stage;
}

sr_status sr_fetcher_epoch(sr_epoch **out, sr_fetcher *f, uint32_t epoch, int stage,
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
        warn_misfit(f, e);
        sr_epoch_release(f->epoch[SR_FETCHER_EPOCHS - 1]);
        f->epoch[SR_FETCHER_EPOCHS - 1] = e;
        *out = touch(f, SR_FETCHER_EPOCHS - 1);
    }
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return st;
}

/* ---- memory ---- */

/* A row: ids, types, owner, position, and 16 bytes of each target on a sixth of them.  A sequence:
 * five numbers of the layout, its targets, and its place in the order and among the packs. */
static const double ROW_BYTES = 20, SEQUENCE_BYTES = 150;

/* Rows of one batch; see sr_batch_make(). */
static const double MOST_ROWS = (double)(INT32_MAX / 8);

static const double GIB = 1024.0 * 1024 * 1024;

typedef struct size {
    double sequences, packs, rows; /* of an update */
} size;

static size size_of(const sr_fetcher *f, const sr_epoch *e, double packs) {
    const sr_loader_opts *o = &f->opts;
    double factor = sr_plan_factor(e->plan), all = (double)e->count * (double)o->epochs;
    size s = {.sequences = o->by == SR_BY_PACKS ? packs * factor : (double)o->sequences};
    if (o->epochs > 0 && s.sequences > all) s.sequences = all;
    s.packs = s.sequences / factor;
    s.rows = (o->arrange == SR_PADDED ? s.sequences : s.packs) * o->examples.max_len;
    return s;
}

static sr_status check_batch(const sr_loader_opts *o, const size *s) {
    double most = o->arrange == SR_PADDED ? s->sequences : s->packs;
    double packs = o->micro > 0 && (double)o->micro < most ? (double)o->micro : most;
    double rows = packs * o->examples.max_len;
    if (o->arrange == SR_SINGLE || rows <= MOST_ROWS) return SR_OK;
    return sr_fail(SR_ENOMEM,
                   "loader: a micro-batch of %.0f %s of %d tokens has %.3g rows, more than %.3g; "
                   "lower micro_packs (batch.micro_packs)",
                   packs, o->arrange == SR_PADDED ? "rows" : "packs", o->examples.max_len, rows,
                   MOST_ROWS);
}

sr_status sr_fetcher_check_size(const sr_fetcher *f, const sr_epoch *e, double packs) {
    const sr_loader_opts *o = &f->opts;
    if (o->by == SR_BY_ORDER) return SR_OK;
    size s = size_of(f, e, packs);
    double one = s.rows * ROW_BYTES + s.sequences * SEQUENCE_BYTES;
    int kept = (o->threads > 0 ? o->prefetch : 0) + 1; /* and the one that is trained on */
    double memory = (double)sr_memory_total();
    if (memory > 0 && one * kept > memory)
        return sr_fail(SR_ENOMEM,
                       "loader: an update of %.0f sequences needs about %.1f GiB (%.1f GiB with "
                       "prefetch %d), but this machine has %.1f GiB; lower sequences "
                       "(batch.sequences)%s",
                       s.sequences, one / GIB, one * kept / GIB, o->prefetch, memory / GIB,
                       one < memory ? " or prefetch (data.prefetch)" : "");
    return check_batch(o, &s);
}

/* ---- making an ordered update ---- */

static int64_t words_of(const sr_fetcher *f, const sr_pick *pick, int64_t n) {
    int64_t words = 0;
    for (int64_t i = 0; i < n && f->d->sentence_words != NULL; i++) {
        sr_example e = sr_pick_example(&pick[i]);
        words += sr_dataset_words(f->d, sr_example_a(&e), (uint64_t)e.a_tokens) +
                 sr_dataset_words(f->d, sr_example_b(&e), (uint64_t)e.b_tokens);
    }
    return words;
}

static sr_status add_batch(sr_update *u, const sr_fetcher *f, const sr_pick *pick, int64_t n,
                           int32_t stride, int64_t rows, int32_t share) {
    sr_batch *b;
    if (n > INT32_MAX / 64)
        return sr_fail(SR_EINVAL, "batch: %" PRId64 " sequences are too many", n);
    SR_TRY(sr_batch_make(&b, f->d, &f->collators, pick, (int32_t)n, stride, rows,
                         f->opts.examples.seed));
    b->share = share;
    u->words += words_of(f, pick, n);
    return sr_update_add(u, b);
}

/* A batch that is made elsewhere: only its counts. */
static sr_status count_batch(sr_update *u, const sr_fetcher *f, const sr_assignment *a, int64_t b) {
    const sr_pick *pick = a->pick + sr_assignment_first(a, b);
    int64_t n = a->end[b] - sr_assignment_first(a, b), tokens = 0;
    if (u->elsewhere == NULL) SR_TRY(sr_new(&u->elsewhere, f->collators.count + 1));
    for (int64_t i = 0; i < n; i++) tokens += sr_pick_length(&pick[i]);
    int64_t rows = a->rows[b] > tokens ? a->rows[b] : tokens;
    u->slots += (rows + SR_ROWS_UNIT - 1) / SR_ROWS_UNIT * SR_ROWS_UNIT;
    u->sequences += n;
    u->tokens += tokens;
    u->words += words_of(f, pick, n);
    return sr_batch_count_targets(u->elsewhere, &u->masked, f->d, &f->collators, pick, n);
}

/* Whether this process makes share `share`, from 0, of `shares`. */
static bool is_made(const sr_loader_opts *o, int32_t share, int64_t shares) {
    if (o->last_share > 0 && (share < o->first_share - 1 || share >= o->last_share)) return false;
    if (o->ranks < 2) return true;
    return share >= sr_first_share(shares, o->rank, o->ranks) &&
           share < sr_first_share(shares, o->rank + 1, o->ranks);
}

enum { POLL = 256 }; /* batches between two checks of the stop flag */

static sr_status make_batch(sr_update *u, const sr_fetcher *f, const sr_assignment *a, int64_t b) {
    int64_t first = sr_assignment_first(a, b);
    int32_t share = sr_assignment_share(a, b);
    if (b % POLL == POLL - 1 && sr_stop_requested()) return sr_fail(SR_ESTOP, "stopped on request");
    if (!is_made(&f->opts, share, a->shares)) return count_batch(u, f, a, b);
    return add_batch(u, f, a->pick + first, a->end[b] - first, a->stride, a->rows[b], share);
}

static sr_status fill(sr_update *u, const sr_fetcher *f, const sr_order *order) {
    sr_assignment a;
    SR_TRY(sr_assign_order(&a, order, &f->opts));
    u->packs = a.packs;
    u->shares = (int32_t)a.shares;
    u->imbalance = a.imbalance;
    double mask = sr_schedule_at(&f->mask_rate, &order->begin.drawn);
    int32_t stage = sr_concept_masks_at(&f->masker.concepts, order->begin.drawn.updates + 1);
    for (int64_t i = 0; mask > 0 && i < a.sequences; i++) a.pick[i].mask = mask;
    for (int64_t i = 0; i < a.sequences; i++) a.pick[i].stage = stage;
    sr_status st = SR_OK;
    for (int64_t b = 0; st == SR_OK && b < a.batches; b++) st = make_batch(u, f, &a, b);
    sr_assignment_free(&a);
    return st;
}

sr_status sr_fetcher_make(sr_update **out, const sr_fetcher *f, const sr_order *order) {
    *out = NULL;
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

/* ---- picks ---- */

static int32_t longest(const sr_pick *pick, int64_t n) {
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++)
        if (sr_pick_length(&pick[i]) > most) most = sr_pick_length(&pick[i]);
    return most;
}

static sr_status add_picks(sr_update *u, const sr_fetcher *f, const sr_pick *pick, int64_t n,
                           sr_arrange how) {
    bool rows = (how == SR_PADDED || how == SR_LONGEST) && f->opts.micro > 0;
    int64_t each = how == SR_SINGLE ? 1 : rows ? f->opts.micro : n;
    int32_t stride = how == SR_PADDED ? f->opts.examples.max_len : 0;
    for (int64_t i = 0; i < n; i += each) {
        int64_t count = n - i < each ? n - i : each;
        if (how == SR_LONGEST) stride = longest(pick + i, count);
        SR_TRY(add_batch(u, f, pick + i, count, stride, count * stride, 0));
    }
    return SR_OK;
}

sr_status sr_fetcher_pick(sr_update **out, const sr_fetcher *f, const sr_pick *pick, int64_t n,
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
