/* Grids: their bounds never exceed a packing and pass the independent check, and the plans that
 * follow them are valid, deterministic, and close to the bound. */
#include <math.h>

#include "core/pack/bounds.h"
#include "core/pack/depth.h"
#include "core/pack/grid.h"
#include "core/pack/imitate.h"
#include "core/pack/prove.h"
#include "tests/support/fail.h"
#include "tests/c/packing.h"

/* Any grid, coarse or fine, on small histograms: the prices of the nodes bound the packs, and those
 * of the real lengths in between prove that bound. */
static void small_ones(void) {
    test_rng r = {61, 0};
    for (int i = 0; i < 500; i++) {
        OWN(sr_histogram, h,
            random_histogram(&h, &r, 2 + test_below(&r, 300), 1 + test_below(&r, 300)));
        int32_t depth = 1 + (int32_t)test_below(&r, 8), cells = depth + (int32_t)test_below(&r, 90);
        OWNED(sr_plan) *best = pack(&h, "optimal", depth);
        sr_grid g;
        sr_pack_opts opts = {.max_seqs = depth};
        sr_lp_limits limits = sr_grid_limits(&opts, cells);
        CHECK_OK(sr_grid_solve(&g, h.count, h.capacity, depth, cells, NULL, &limits));
        CHECK(g.bound <= best->packs && sr_bound_count(&h, depth) <= best->packs);
        double *value;
        sr_certificate c;
        CHECK_OK(sr_new(&value, h.capacity + 1));
        sr_grid_value(value, &g);
        CHECK_OK(sr_certificate_make(&c, value, &h, depth));
        CHECK_OK(sr_certificate_check(&c, &h));
        CHECK(c.bound >= g.bound - 1 && c.bound <= best->packs);
        int64_t bound;
        OWN(sr_plan, *plan, sr_imitate(&plan, &bound, &h, &opts, cells));
        CHECK(sr_plan_check(plan) == SR_OK && plan->packs >= best->bound.packs);
        CHECK(plan->deepest <= depth && plan->unfilled == 0);
        sr_certificate_free(&c);
        sr_free(value);
        sr_grid_free(&g);
    }
}

/* Log-normal lengths up to 4,096, cut at the capacity. */
static void lognormal(sr_histogram *h, double spread, double count) {
    enum { L = 4096 };
    CHECK_OK(sr_histogram_new(h, L));
    for (int32_t l = 1; l <= L; l++) {
        double x = log((double)l / 245) / spread;
        int64_t n = (int64_t)(count / (l * spread) * exp(-0.5 * x * x));
        CHECK_OK(sr_histogram_add(h, l, n + (l == L ? (int64_t)count / 200 : 0), SR_LONG_ERROR));
    }
}

static void long_lengths(void) {
    static const char *const greedy[] = {"bpcc", "lpfhp", "spfhp", "bfd", "ffd"};
    static const int32_t depths[] = {2, 4, 8, 32};
    OWNED(sr_histogram) h;
    lognormal(&h, 1.1, 2e5);
    for (int i = 0; i < 4; i++) {
        sr_certificate c;
        OWNED(sr_plan) *plan = pack(&h, "optimal", depths[i]);
        OWNED(sr_plan) *again = pack(&h, "optimal", depths[i]);
        CHECK(sr_plan_gap(plan) * 2000 <= plan->bound.packs && plan->deepest <= depths[i]);
        CHECK(again->packs == plan->packs && again->parts == plan->parts);
        CHECK(memcmp(again->part, plan->part, plan->parts * sizeof *plan->part) == 0);
        for (int s = 0; s < 5; s++) {
            OWNED(sr_plan) *other = pack(&h, greedy[s], depths[i]);
            CHECK(plan->packs <= other->packs && plan->bound.packs >= other->bound.packs);
        }
        CHECK_OK(sr_pack_prove(&c, &h, &(sr_pack_opts){.max_seqs = depths[i]}));
        CHECK_OK(sr_certificate_check(&c, &h));
        CHECK(c.bound >= plan->bound.packs && c.bound <= plan->packs);
        sr_certificate_free(&c);
    }
}

/* The same lengths, a hundred thousand times as often: equal packs are made at once. */
static void many_sequences(void) {
    OWNED(sr_histogram) h;
    lognormal(&h, 1.1, 2e10);
    OWNED(sr_plan) *plan = pack(&h, "optimal", 16);
    CHECK(sr_plan_gap(plan) * 2000 <= plan->bound.packs);
    CHECK(plan->strategies < 10000000);
}

/* The depth of a long capacity: the bounds rule out shallow ones, and one less is not enough. */
static void depth_by_itself(void) {
    OWNED(sr_histogram) h;
    sr_depth_choice c;
    lognormal(&h, 1.1, 2e5);
    CHECK_OK(sr_pack_choose_depth(&c, &h, &(sr_pack_opts){0}, 0.0005));
    CHECK(c.packs >= c.bound && (c.packs - c.bound) * 2000 <= c.bound);
    OWNED(sr_plan) *less = pack(&h, "optimal", c.max_seqs - 1);
    CHECK((less->packs - c.bound) * 2000 > c.bound && c.packs_below <= less->packs);
}

/* Lengths that cannot share: long ones are alone, whatever the depth. */
static void shares(void) {
    OWN(sr_histogram, h, sr_histogram_new(&h, 100));
    CHECK_OK(sr_histogram_add(&h, 95, 7, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&h, 80, 4, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&h, 10, 8, SR_LONG_ERROR));
    CHECK(sr_bound_count(&h, 4) == 7 + 4); /* 7 + 4 / 3 + 8 / 4 = 10.33 */
    CHECK(sr_bound_count(&h, 1) == 19 && sr_bound_count(&h, 0) == 0);
    OWNED(sr_plan) *plan = pack(&h, "bpcc", 4);
    CHECK(plan->packs == 11);
}

static void out_of_memory(void) {
    sr_plan *plan;
    sr_pack_opts opts = {.max_seqs = 3};
    sr_status st;
    OWN(sr_histogram, h, sr_histogram_new(&h, 1200));
    for (int32_t l = 1; l <= 1200; l++) CHECK_OK(sr_histogram_add(&h, l, 3, SR_LONG_ERROR));
    int64_t live = sr_mem_live(), bound;
    STARVE_ANY(st, 20, false, false, sr_imitate(&plan, &bound, &h, &opts, 32)) {
        if (st == SR_OK) sr_plan_free(plan);
        CHECK(sr_mem_live() == live);
    }
}

int main(void) {
    small_ones();
    long_lengths();
    many_sequences();
    depth_by_itself();
    shares();
    out_of_memory();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
