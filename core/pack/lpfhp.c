/* lpfhp.c - best fit on groups of packs.  Among packs with equal space, the solver lpfhp takes the
 * newest (the reference uses a stack), bfd the oldest. */
#include "core/pack/groups.h"
#include "core/pack/solvers.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* One placement: fills the tightest group, or opens packs, and subtracts from *n. */
static sr_status place(sr_groups *g, int32_t length, int64_t *n) {
    int32_t space = sr_groups_above(g, length);
    const sr_group *old = space >= 0 ? &g->group[g->head[space]] : NULL;
    int32_t room = space >= 0 ? space : g->capacity;
    int32_t depth = g->max_seqs - (old != NULL ? old->members : 0);
    int32_t copies = (int32_t)least(least(room / length, depth), *n);
    int64_t packs = *n / copies;
    if (old != NULL) packs = least(packs, old->count);
    *n -= packs * copies;
    return sr_groups_place(g, space, packs, length, copies);
}

static sr_status best_fit(sr_plan **out, const sr_histogram *h, int32_t max_seqs, const char *name,
                          bool oldest_first) {
    sr_builder b;
    sr_groups g;
    SR_TRY(sr_build_begin(&b, h, max_seqs, name));
    sr_status st = sr_groups_new(&g, h->capacity, max_seqs, oldest_first);
    for (int32_t l = h->capacity; l >= 1; l--)
        for (int64_t n = h->count[l]; n > 0 && st == SR_OK;) st = place(&g, l, &n);
    if (st == SR_OK) st = sr_groups_build(&b, &g);
    sr_groups_free(&g);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}

sr_status sr_solve_lpfhp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    return best_fit(out, h, opts->max_seqs, "lpfhp", false);
}

sr_status sr_solve_bfd(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    return best_fit(out, h, opts->max_seqs, "bfd", true);
}
