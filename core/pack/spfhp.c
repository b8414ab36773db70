#include "core/pack/groups.h"
#include "core/pack/solvers.h"

/* Places n sequences of one length.  The scan only moves down, so a pack that has just received a
 * sequence can receive the next one only further down. */
static sr_status place(sr_groups *g, int32_t length, int64_t n) {
    int32_t space = sr_groups_below(g, g->capacity);
    while (n > 0 && space >= length) {
        int64_t there = g->group[g->head[space]].count, take = there < n ? there : n;
        SR_TRY(sr_groups_place(g, space, take, length, 1));
        n -= take;
        space = sr_groups_below(g, space);
    }
    return n > 0 ? sr_groups_place(g, -1, n, length, 1) : SR_OK;
}

sr_status sr_solve_spfhp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    sr_builder b;
    sr_groups g;
    SR_TRY(sr_build_begin(&b, h, opts->max_seqs, "spfhp"));
    sr_status st = sr_groups_new(&g, h->capacity, opts->max_seqs, false);
    for (int32_t l = h->capacity; l >= 1 && st == SR_OK; l--)
        if (h->count[l] > 0) st = place(&g, l, h->count[l]);
    if (st == SR_OK) st = sr_groups_build(&b, &g);
    sr_groups_free(&g);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}
