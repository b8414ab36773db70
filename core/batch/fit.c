#include "core/batch/fit.h"

#include <string.h>

#include "core/base/mem.h"

typedef struct fit {
    sr_pick *pick, *from; /* from: a copy of the input */
    uint16_t *length;
    uint32_t *member;
    sr_plan *plan;
    sr_packing *packing;
    int64_t n;
} fit;

static void release(fit *f) {
    sr_packing_free(f->packing);
    sr_plan_free(f->plan);
    sr_free(f->member);
    sr_free(f->length);
    sr_free(f->from);
}

static sr_status read_picks(fit *f) {
    SR_TRY(sr_new(&f->from, f->n));
    SR_TRY(sr_new(&f->length, f->n));
    SR_TRY(sr_new(&f->member, f->n));
    memcpy(f->from, f->pick, (size_t)f->n * sizeof *f->from);
    for (int64_t i = 0; i < f->n; i++) f->length[i] = (uint16_t)sr_pick_length(&f->pick[i]);
    return SR_OK;
}

static sr_status solve(fit *f, const sr_loader_opts *o) {
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

static sr_status place(fit *f, int64_t *end, int64_t *packs, uint32_t key) {
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

sr_status sr_fit(sr_pick *pick, int64_t n, int64_t *end, int64_t *packs, const sr_loader_opts *opts,
                 uint32_t key) {
    fit f = {.pick = pick, .n = n};
    sr_status st = read_picks(&f);
    if (st == SR_OK) st = solve(&f, opts);
    if (st == SR_OK) st = place(&f, end, packs, key);
    release(&f);
    return st;
}
