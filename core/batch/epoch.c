#include "core/batch/epoch.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"

static bool same_lengths(const sr_histogram *a, const sr_histogram *b) {
    return a->capacity == b->capacity && a->lost == 0 &&
           memcmp(a->count, b->count, ((size_t)a->capacity + 1) * sizeof *a->count) == 0;
}

/* A copy of a saved plan, through its text form: what a run reads back is the same plan. */
static sr_status copy_plan(sr_plan **out, const sr_plan *plan) {
    char *text;
    size_t size;
    SR_TRY(sr_plan_print(&text, &size, plan));
    sr_status st = sr_plan_parse(out, text, size, "plan");
    sr_free(text);
    return st;
}

static sr_status solve_plan(sr_epoch *e, const sr_histogram *hist, const sr_pack_opts *solve) {
    sr_pack_opts own = *solve;
    sr_depth_choice choice;
    if (own.max_seqs == SR_DEPTH_AUTO) {
        SR_TRY(sr_pack_choose_depth(&choice, hist, &own, SR_DEPTH_TOLERANCE));
        own.max_seqs = choice.max_seqs;
        memcpy(e->reason, choice.reason, sizeof e->reason);
    }
    return sr_pack_solve(&e->plan, hist, &own);
}

static sr_status make_plan(sr_epoch *e, const sr_lengths *lengths, int32_t capacity,
                           const sr_pack_opts *solve, const sr_plan *saved) {
    sr_histogram hist = {0};
    SR_TRY(sr_histogram_count(&hist, lengths, capacity, SR_LONG_ERROR));
    sr_status st = saved != NULL && same_lengths(&saved->histogram, &hist)
                       ? copy_plan(&e->plan, saved)
                       : solve_plan(e, &hist, solve);
    sr_histogram_free(&hist);
    return st;
}

static sr_status plan_epoch(sr_epoch *e, const sr_examples_opts *examples,
                            const sr_pack_opts *solve, const sr_plan *saved, bool bind) {
    uint16_t *lengths;
    SR_TRY(sr_examples_lengths(&lengths, e->examples));
    sr_lengths view = {.data = lengths, .width = 2, .count = e->examples->count};
    sr_status st = make_plan(e, &view, examples->max_len, solve, saved);
    if (st == SR_OK && bind) st = sr_packing_new(&e->packing, e->plan, &view, examples->seed);
    if (st == SR_OK) e->packs = e->plan->packs;
    sr_free(lengths);
    return st;
}

sr_status sr_epoch_build(sr_epoch **out, const sr_dataset *d, const sr_examples_opts *examples,
                         const sr_pack_opts *solve, const sr_plan *saved, bool bind,
                         sr_threads *threads) {
    *out = NULL;
    sr_epoch *e;
    double began = sr_time_monotonic();
    SR_TRY(sr_new(&e, 1));
    *e = (sr_epoch){.epoch = examples->epoch, .refs = 1};
    sr_status st = sr_examples_build(&e->examples, d, examples, threads);
    if (st == SR_OK) st = plan_epoch(e, examples, solve, saved, bind);
    e->seconds = sr_time_monotonic() - began;
    if (st != SR_OK) {
        sr_epoch_release(e);
        return st;
    }
    *out = e;
    return SR_OK;
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
    sr_free(e);
}
