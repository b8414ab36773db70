/* optimal.c - packing with a proof: linear program, rounding, certificate. */
#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/bounds.h"
#include "core/pack/build.h"
#include "core/pack/certificate.h"
#include "core/pack/grid.h"
#include "core/pack/imitate.h"
#include "core/pack/repair.h"
#include "core/pack/round.h"
#include "core/pack/solvers.h"

static const int64_t EXACT = (int64_t)1 << 53; /* intermediate counts of packs are doubles */
static const double GRID_GAP = 1e-4;
enum { REPAIRS = 4, MANY_LENGTHS = 512, SHALLOW = 4 };

static int32_t different_lengths(const sr_histogram *h) {
    int32_t rows = 0;
    for (int32_t l = 1; l <= h->capacity; l++) rows += h->count[l] > 0;
    return rows;
}

/* The cost of a pivot is proportional to the rows, so the default is a few seconds at most.  Up to
 * 1,024 lengths the program is solved to optimality; above, to 0.005 per cent, and less precisely
 * as the work grows. */
static sr_lp_limits choose_limits(const sr_histogram *h, const sr_pack_opts *opts, int64_t known) {
    int32_t rows = different_lengths(h);
    sr_lp_limits limits = {.known = known};
    limits.pivots = opts->iterations > 0 ? opts->iterations : 100000000 / (rows + 256);
    limits.gap = rows > 1024 ? 5e-5 : 0;
    limits.drawn = sr_lp_drawn(rows);
    if (opts->seconds > 0) limits.deadline = sr_time_monotonic() + opts->seconds;
    return limits;
}

/* The state of one solve. */
typedef struct search {
    const sr_histogram *h;
    const sr_pack_opts *opts;
    sr_plan *greedy;
    sr_pattern_list start;
    sr_lp_limits limits;
    sr_lp lp;
    sr_bound bound;
    sr_rounding rounding;
} search;

static void search_free(search *s) {
    sr_plan_free(s->greedy);
    sr_pattern_list_free(&s->start);
    sr_lp_free(&s->lp);
    sr_rounding_free(&s->rounding);
}

static void keep_better(search *s, sr_plan *other) {
    bool better = other->packs < s->greedy->packs;
    sr_plan_free(better ? s->greedy : other);
    if (better) s->greedy = other;
}

/* True for a limit above SHALLOW and many lengths of which full packs would hold about as many as
 * the limit of depth, or more. */
static bool depth_binds(const search *s) {
    double most = (double)s->opts->max_seqs * (double)sr_bound_tokens(s->h);
    return s->opts->max_seqs > SHALLOW && (double)s->h->sequences > 0.9 * most &&
           different_lengths(s->h) > MANY_LENGTHS;
}

/* There, the patterns of bpcc are much better than those of best fit. */
static sr_status start_from_shares(search *s) {
    sr_plan *plan;
    SR_TRY(sr_solve_bpcc(&plan, s->h, s->opts));
    sr_status st = sr_pattern_list_add(&s->start, plan);
    keep_better(s, plan);
    return st;
}

static sr_status solve_linear(search *s) {
    sr_certificate c;
    SR_TRY(sr_pattern_list_new(&s->start));
    SR_TRY(sr_pattern_list_add(&s->start, s->greedy));
    if (depth_binds(s)) SR_TRY(start_from_shares(s));
    s->limits = choose_limits(s->h, s->opts, s->bound.packs);
    SR_TRY(
        sr_lp_solve(&s->lp, s->h->count, s->h->capacity, s->opts->max_seqs, &s->start, &s->limits));
    if (ceil(s->lp.bound - 1e-6) <= (double)s->bound.packs) return SR_OK;
    SR_TRY(sr_certificate_make(&c, s->lp.value, s->h, s->opts->max_seqs));
    if (c.bound > s->bound.packs) s->bound = (sr_bound){c.bound, SR_BOUND_LP};
    sr_certificate_free(&c);
    return SR_OK;
}

/* Several dives with different thresholds, each from the integer parts of the linear solution. */
static sr_status round_packs(search *s) {
    static const double least[] = {0.75, 0.6, 0.9, 0.5, 0.67, 0.8};
    sr_rounding *r = &s->rounding;
    int64_t target = s->bound.packs, fraction = (int64_t)ceil(s->lp.packs - 1e-5);
    if (!s->lp.finished && fraction > target)
        target = fraction; /* stopped early: nothing more to gain */
    SR_TRY(sr_rounding_new(r, s->h, s->opts->max_seqs, target));
    SR_TRY(sr_rounding_floor(r, &s->lp));
    size_t whole = r->taken.parts.count;
    sr_lp_limits limits = {.pivots = s->lp.pivots + 1000 + 4 * different_lengths(s->h),
                           .deadline = s->limits.deadline};
    for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
        if (r->best_packs <= target) break;
        sr_rounding_back(r, whole);
        SR_TRY(sr_rounding_dive(r, &s->lp, least[i], &limits));
    }
    return SR_OK;
}

static sr_status build_list(sr_builder *b, const sr_pattern_list *list) {
    sr_plan_part *parts;
    SR_TRY(sr_new(&parts, b->plan->capacity));
    sr_status st = SR_OK;
    const sr_vectors *v = &list->parts;
    for (size_t j = 0; j < v->count && st == SR_OK; j++) {
        size_t n = 0;
        for (size_t k = v->start[j]; k < v->start[j + 1]; k++)
            parts[n++] = (sr_plan_part){(uint16_t)v->entry[k].at, (uint16_t)v->entry[k].value};
        st = sr_build_add(b, (int64_t)list->weight[j], parts, n);
    }
    sr_free(parts);
    return st;
}

/* Greedy packings are sometimes better than rounding. */
static sr_status try_greedy(search *s) {
    static sr_status (*const solvers[])(sr_plan **, const sr_histogram *, const sr_pack_opts *) = {
        sr_solve_bfd, sr_solve_ffd, sr_solve_spfhp, sr_solve_bpcc};
    for (size_t i = 0; i < sizeof solvers / sizeof *solvers; i++) {
        sr_plan *other;
        SR_TRY(solvers[i](&other, s->h, s->opts));
        keep_better(s, other);
    }
    return SR_OK;
}

/* A plan that follows a grid, repaired as long as that helps. */
static sr_status try_grid(search *s, int32_t cells) {
    int64_t bound, packs = INT64_MAX;
    sr_plan *plan;
    SR_TRY(sr_imitate(&plan, &bound, s->h, s->opts, cells));
    if (bound > s->bound.packs) s->bound = (sr_bound){bound, SR_BOUND_LP};
    sr_status st = SR_OK;
    for (int i = 0; i < REPAIRS && plan->packs > s->bound.packs && plan->packs < packs; i++) {
        packs = plan->packs;
        SR_GO(done, st, sr_repair(&plan, s->opts, cells));
    }
    keep_better(s, plan);
    return SR_OK;
done:
    sr_plan_free(plan);
    return st;
}

/* Grids of growing precision, until the gap is small.  Where no bound is above that of the tokens,
 * the finest ones do not help. */
static sr_status try_grids(search *s) {
    const int32_t capacity = s->h->capacity;
    for (int i = 0; sr_grid_cells(i, capacity) > 0; i++) {
        int64_t small = (int64_t)(GRID_GAP * (double)s->bound.packs);
        if (s->greedy->packs - s->bound.packs <= (i > 0 ? small : 0)) break;
        if (i > 1 && s->bound.packs <= sr_bound_l2(s->h)) break;
        SR_TRY(try_grid(s, sr_grid_cells(i, capacity)));
    }
    return SR_OK;
}

static bool has_better(const search *s) {
    return s->rounding.best_packs > 0 && s->rounding.best_packs < s->greedy->packs;
}

static sr_status search_packing(search *s) {
    SR_TRY(sr_solve_lpfhp(&s->greedy, s->h, s->opts));
    s->bound = s->greedy->bound;
    if (s->greedy->packs == s->bound.packs) return SR_OK;
    if (sr_grid_suits(s->h, s->opts->max_seqs)) {
        SR_TRY(try_greedy(s));
        return try_grids(s);
    }
    if (s->h->sequences <= EXACT) {
        SR_TRY(solve_linear(s));
        if (s->greedy->packs > s->bound.packs) SR_TRY(round_packs(s));
    }
    bool proven = has_better(s) && s->rounding.best_packs == s->bound.packs;
    return proven ? SR_OK : try_greedy(s);
}

/* The best plan, from the builder or from a greedy solver. */
static sr_status take_best(sr_plan **out, search *s) {
    if (!has_better(s)) {
        *out = s->greedy;
        s->greedy = NULL;
        snprintf((*out)->solver, sizeof(*out)->solver, "optimal");
        return SR_OK;
    }
    sr_builder b;
    SR_TRY(sr_build_begin(&b, s->h, s->opts->max_seqs, "optimal"));
    sr_status st = build_list(&b, &s->rounding.best);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}

sr_status sr_solve_optimal(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    double began = sr_time_monotonic();
    search s = {.h = h, .opts = opts};
    sr_status st = search_packing(&s);
    if (st == SR_OK) st = take_best(out, &s);
    if (st == SR_OK) {
        (*out)->bound = s.bound;
        (*out)->milliseconds = (sr_time_monotonic() - began) * 1e3;
    }
    search_free(&s);
    return st;
}
