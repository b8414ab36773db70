#include "core/pack/depth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/system.h"
#include "core/pack/bounds.h"
#include "core/pack/grid.h"

/* True if a bound shows at little cost that no plan of this depth has at most `enough` packs. */
static sr_status is_too_shallow(bool *out, int64_t *bound, const sr_histogram *h,
                                const sr_pack_opts *opts, int32_t depth, int64_t enough) {
    *bound = sr_bound_cheap(h, depth).packs;
    if (*bound <= enough && sr_grid_suits(h, depth)) {
        sr_grid g;
        int32_t cells = sr_grid_cells(0, h->capacity);
        sr_lp_limits limits = sr_grid_limits(opts, cells);
        SR_TRY(sr_grid_solve(&g, h->count, h->capacity, depth, cells, NULL, &limits));
        if (g.bound > *bound) *bound = g.bound;
        sr_grid_free(&g);
    }
    *out = *bound > enough;
    return SR_OK;
}

static sr_status packs_at(int64_t *packs, int64_t *bound, const sr_histogram *h,
                          const sr_pack_opts *opts, int32_t depth) {
    sr_plan *plan;
    sr_pack_opts own = *opts;
    own.max_seqs = depth;
    SR_TRY(sr_pack_solve(&plan, h, &own));
    *packs = plan->packs;
    *bound = plan->bound.packs;
    sr_plan_free(plan);
    return SR_OK;
}

static void explain(sr_depth_choice *c, double tolerance, bool late) {
    double above = c->bound > 0 ? 100.0 * (double)(c->packs - c->bound) / (double)c->bound : 0;
    int n =
        snprintf(c->reason, sizeof c->reason,
                 "%d sequences per pack: %" PRId64 " packs are %.4f%% above the bound without a "
                 "limit (tolerance %.4g%%)",
                 c->max_seqs, c->packs, above, 100 * tolerance);
    if (c->packs_below > 0 && n > 0 && n < (int)sizeof c->reason)
        snprintf(c->reason + n, sizeof c->reason - (size_t)n, "; %d would need %" PRId64,
                 c->max_seqs - 1, c->packs_below);
    if (late && n > 0 && n < (int)sizeof c->reason)
        snprintf(c->reason + n, sizeof c->reason - (size_t)n, "; no time to try fewer");
}

static bool is_late(double deadline) {
    return deadline > 0 && sr_time_monotonic() >= deadline;
}

/* The packs of a plan of this depth, or a bound that exceeds `enough`. */
static sr_status try_depth(int64_t *packs, const sr_histogram *h, const sr_pack_opts *opts,
                           int32_t depth, int64_t enough) {
    bool too_shallow;
    int64_t bound;
    SR_TRY(is_too_shallow(&too_shallow, packs, h, opts, depth, enough));
    return too_shallow ? SR_OK : packs_at(packs, &bound, h, opts, depth);
}

/* Growing steps up from `low` (too shallow) to a sufficient depth, then bisection; at `deadline`
 * (0: none), the least depth known to be sufficient is taken. */
static sr_status search(sr_depth_choice *c, const sr_histogram *h, const sr_pack_opts *opts,
                        int64_t enough, int32_t low, int32_t high, double deadline) {
    int64_t packs;
    for (int32_t step = 1; low < high && !is_late(deadline); step *= 2) {
        int32_t depth = low + step < high ? low + step : high;
        SR_TRY(try_depth(&packs, h, opts, depth, enough));
        if (packs <= enough || depth == high) {
            c->max_seqs = high = depth, c->packs = packs;
            break;
        }
        low = depth, c->packs_below = packs;
    }
    while (high - low > 1 && !is_late(deadline)) {
        int32_t depth = low + (high - low) / 2;
        SR_TRY(try_depth(&packs, h, opts, depth, enough));
        if (packs <= enough)
            high = depth, c->max_seqs = depth, c->packs = packs;
        else
            low = depth, c->packs_below = packs;
    }
    if (high - low > 1) c->packs_below = 0; /* unknown */
    return SR_OK;
}

sr_status sr_pack_choose_depth(sr_depth_choice *out, const sr_histogram *hist,
                               const sr_pack_opts *opts, double tolerance) {
    memset(out, 0, sizeof *out);
    if (!(tolerance >= 0 && tolerance < 1))
        return sr_fail(SR_EINVAL, "pack: tolerance is %g; must be 0 to 1 (0.0005 is 0.05%%)",
                       tolerance);
    sr_pack_opts own = *opts;
    own.seconds = opts->seconds /
                  3; /* one third for the solve without limit, one for the search, one remains */
    double deadline = opts->seconds > 0 ? sr_time_monotonic() + 2 * own.seconds : 0;
    int64_t any, bound;
    SR_TRY(packs_at(&any, &bound, hist, &own, 0));
    out->bound = bound, out->packs = any;
    int64_t enough = bound + (int64_t)((double)bound * tolerance);
    if (any > enough) enough = any; /* no depth is better than no limit */
    int32_t shortest = 1;
    while (shortest < hist->capacity && hist->count[shortest] == 0) shortest++;
    int32_t high = hist->capacity / shortest;
    int64_t least = enough > 0 ? hist->sequences / enough + (hist->sequences % enough != 0) : 1;
    int32_t low = least > 1 ? (int32_t)least - 1 : 0; /* its count bound exceeds `enough` */
    if (low >= high) low = high - 1;
    out->max_seqs = high; /* never limits a pack */
    if (low > 0) out->packs_below = hist->sequences / low + (hist->sequences % low != 0);
    SR_TRY(search(out, hist, &own, enough, low, high, deadline));
    if (out->max_seqs <= 1) out->packs_below = 0;
    explain(out, tolerance, out->packs_below == 0 && out->max_seqs > 1);
    return SR_OK;
}
