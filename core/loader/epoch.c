#include "core/loader/epoch.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/batch/batch.h"

static bool same_lengths(const sr_histogram *a, const sr_histogram *b) {
    return a->capacity == b->capacity && a->lost == 0 &&
           memcmp(a->count, b->count, ((size_t)a->capacity + 1) * sizeof *a->count) == 0;
}

static sr_status solve_plan(sr_epoch *e, const sr_histogram *hist, const sr_pack_opts *solve) {
    sr_pack_opts own = *solve;
    sr_depth_choice choice;
    if (own.max_seqs == SR_DEPTH_AUTO) {
        sr_pack_opts usual = own;
        usual.own = NULL;
        SR_TRY(sr_pack_choose_depth(&choice, hist, &usual, SR_DEPTH_TOLERANCE));
        own.max_seqs = choice.max_seqs;
        memcpy(e->reason, choice.reason, sizeof e->reason);
    }
    return sr_pack_solve(&e->plan, hist, &own);
}

static sr_status make_plan(sr_epoch *e, const sr_lengths *lengths, const sr_epoch_opts *o) {
    sr_histogram hist = {0};
    SR_TRY(sr_histogram_count(&hist, lengths, o->examples.max_len, SR_LONG_ERROR));
    sr_status st = SR_OK;
    e->saved = o->saved != NULL && same_lengths(&o->saved->histogram, &hist);
    if (e->saved)
        e->plan = sr_plan_retain(o->saved);
    else
        st = solve_plan(e, &hist, o->solve);
    sr_histogram_free(&hist);
    return st;
}

/* The lengths of the sequences that are drawn, as they are packed. */
static sr_status read_lengths(uint16_t **out, const sr_epoch *e, int32_t limit) {
    SR_TRY(sr_new(out, e->count));
    for (int64_t i = 0; i < e->count; i++) {
        sr_pick p = {.examples = e->examples, .uid = sr_epoch_uid(e, i), .limit = limit};
        (*out)[i] = (uint16_t)sr_pick_length(&p);
    }
    return SR_OK;
}

static sr_status plan_epoch(sr_epoch *e, const sr_epoch_opts *o) {
    uint16_t *lengths;
    SR_TRY(read_lengths(&lengths, e, o->stage != NULL ? o->stage->max_len : 0));
    sr_lengths view = {.data = lengths, .width = 2, .count = e->count};
    sr_status st = make_plan(e, &view, o);
    if (st == SR_OK && o->bind) st = sr_packing_new(&e->packing, e->plan, &view, o->examples.seed);
    if (st == SR_OK) e->packs = e->plan->packs;
    sr_free(lengths);
    return st;
}

static bool wanted(const sr_stage *s, int64_t *next, const sr_examples *x, uint32_t uid) {
    int32_t len = sr_example_length(&x->example[uid]);
    if (s->uid != NULL && (*next == s->uids || s->uid[*next] != uid)) return false;
    *next += s->uid != NULL;
    return len >= s->shortest && (s->longest == 0 || len <= s->longest);
}

/* Which sequences a stage draws from. */
static sr_status choose(sr_epoch *e, const sr_stage *s) {
    const sr_examples *x = e->examples;
    e->count = x->count;
    if (s == NULL || (s->uid == NULL && s->shortest == 0 && s->longest == 0)) return SR_OK;
    if (s->uids > 0 && s->uid[s->uids - 1] >= x->count)
        return sr_fail(SR_EINVAL,
                       "loader: a stage has the uid %" PRIu32 ", but there are %" PRId64
                       " examples, from 0",
                       s->uid[s->uids - 1], x->count);
    SR_TRY(sr_new(&e->subset, x->count));
    int64_t n = 0, next = 0;
    for (int64_t i = 0; i < x->count; i++)
        if (wanted(s, &next, x, (uint32_t)i)) e->subset[n++] = (uint32_t)i;
    e->count = n;
    if (n > 0) return SR_OK;
    return sr_fail(SR_EDATA,
                   "loader: a stage leaves none of the %" PRId64 " sequences; widen its "
                   "filter (shortest %d, longest %d tokens)",
                   x->count, s->shortest, s->longest);
}

sr_status sr_epoch_build(sr_epoch **out, const sr_dataset *d, const sr_epoch_opts *opts,
                         sr_threads *threads) {
    *out = NULL;
    sr_epoch *e;
    double began = sr_time_monotonic();
    SR_TRY(sr_new(&e, 1));
    *e = (sr_epoch){.epoch = opts->examples.epoch, .refs = 1};
    sr_status st = sr_examples_build(&e->examples, d, &opts->examples, threads);
    if (st == SR_OK) st = choose(e, opts->stage);
    if (st == SR_OK) st = plan_epoch(e, opts);
    e->seconds = sr_time_monotonic() - began;
    return SR_GIVE(out, e, st, sr_epoch_release);
}

sr_epoch *sr_epoch_retain(sr_epoch *e) {
    __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
    return e;
}

void sr_epoch_release(sr_epoch *e) {
    if (e == NULL || __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    sr_packing_free(e->packing);
    sr_plan_free(e->plan);
    sr_examples_free(e->examples);
    sr_free(e->subset);
    sr_free(e);
}
