/* The optimal solver: its packings are exact and never worse than greedy ones, its bounds never
 * exceed the true optimum, and its proofs pass an independent check. */
#include <math.h>

#include "core/pack/bounds.h"
#include "core/pack/depth.h"
#include "core/pack/prove.h"
#include "tests/support/fail.h"
#include "tests/c/packing.h"

/* ---- the tables ---- */

/* bounds.tsv: the bound is at least the proven one and never above the best known packing; the
 * packing is never worse than the best known one. */
static void bounds_row(const char *line) {
    char set[64], depth[16];
    long long capacity, sequences, tokens, token, count, l2, bound, known;
    if (sscanf(line, "%63s %lld %15s %lld %lld %lld %lld %lld %lld %lld", set, &capacity, depth,
               &sequences, &tokens, &token, &count, &l2, &bound, &known) != 10)
        return;
    OWN(sr_histogram, h, load_set(&h, set));
    CHECK(h.sequences == sequences && h.tokens == tokens);
    CHECK(sr_bound_tokens(&h) == token && sr_bound_l2(&h) == l2);
    OWNED(sr_plan) *plan = pack(&h, "optimal", atoi(depth));
    if (plan->bound.packs < bound || plan->packs > known)
        printf("%s %s: %lld packs, bound %lld; known %lld, %lld\n", set, depth,
               (long long)plan->packs, (long long)plan->bound.packs, known, bound);
    CHECK(plan->bound.packs >= bound && plan->bound.packs <= known);
    CHECK(plan->packs <= known);
}

/* Depths 2 and 3 of every set: at most 0.02 % above the published packs; depth 4 where the
 * reference implementation could run. */
static void nnlshp_row(const char *line) {
    char set[64], solver[32], depth[16];
    long long packs, strategies;
    if (sscanf(line, "%63s %31s %15s %lld %lld", set, solver, depth, &packs, &strategies) != 5)
        return;
    if (strcmp(solver, "nnlshp") != 0) return;
    if (atoi(depth) > 3 && strcmp(set, "squad_384") != 0) return;
    OWN(sr_histogram, h, load_set(&h, set));
    OWNED(sr_plan) *plan = pack(&h, "nnlshp", atoi(depth));
    if ((double)plan->packs > (double)packs * 1.0002)
        printf("%s nnlshp %s: %lld packs, published %lld\n", set, depth, (long long)plan->packs,
               packs);
    CHECK((double)plan->packs <= (double)packs * 1.0002);
}

static void published_certificates(void) {
    static const char *const sets[] = {"squad_384", "wikipedia_512"};
    static const char *const depths[] = {"3", "4", "max"};
    for (int i = 0; i < 6; i++) {
        char path[128];
        OWNED(sr_certificate) c = {0};
        snprintf(path, sizeof path, PACKING_DATA "cert_%s_k%s.tsv", sets[i / 3], depths[i % 3]);
        OWN(sr_histogram, h, load_set(&h, sets[i / 3]));
        CHECK_OK(sr_certificate_load(&c, path));
        CHECK_OK(sr_certificate_check(&c, &h));
        c.weight[100]++;
        CHECK_FAILS(sr_certificate_check(&c, &h), SR_EDATA, "invalid proof");
        c.weight[100]--;
        for (int64_t by = -1; by <= 1; by += 2) {
            c.heaviest += by;
            CHECK_FAILS(sr_certificate_check(&c, &h), SR_EDATA, "heaviest pattern");
            c.heaviest -= by, c.total += by;
            CHECK_FAILS(sr_certificate_check(&c, &h), SR_EDATA, "total weight");
            c.total -= by, c.bound += by;
            CHECK_FAILS(sr_certificate_check(&c, &h), SR_EDATA, "the bound");
            c.bound -= by;
        }
    }
}

/* ---- small cases, by brute force ---- */

typedef struct brute {
    int32_t item[16], space[16], members[16], n, capacity, depth, best;
} brute;

static void place(brute *b, int32_t i, int32_t packs) {
    if (packs >= b->best) return;
    if (i == b->n) {
        b->best = packs;
        return;
    }
    for (int32_t p = 0; p < packs; p++) {
        if (b->space[p] < b->item[i] || b->members[p] == b->depth) continue;
        b->space[p] -= b->item[i], b->members[p]++;
        place(b, i + 1, packs);
        b->space[p] += b->item[i], b->members[p]--;
    }
    b->space[packs] = b->capacity - b->item[i], b->members[packs] = 1;
    place(b, i + 1, packs + 1);
}

static int32_t optimum(const sr_histogram *h, int32_t depth) {
    brute b = {.capacity = h->capacity, .depth = depth > 0 ? depth : h->capacity};
    for (int32_t l = h->capacity; l >= 1; l--)
        for (int64_t i = 0; i < h->count[l]; i++) b.item[b.n++] = l;
    b.best = b.n + 1;
    place(&b, 0, 0);
    return b.n > 0 ? b.best : 0;
}

static void against_brute_force(void) {
    test_rng r = {21, 0};
    int proven = 0, all = 0;
    for (int i = 0; i < 3000; i++) {
        OWNED(sr_certificate) c = {0};
        uint32_t capacity = 2 + test_below(&r, i % 2 == 0 ? 12 : 60);
        OWN(sr_histogram, h, sr_histogram_new(&h, capacity));
        for (uint32_t n = 1 + test_below(&r, 10); n > 0; n--)
            CHECK_OK(sr_histogram_add(&h, 1 + test_below(&r, capacity), 1, SR_LONG_ERROR));
        int32_t depth = i % 3 == 0 ? 0 : 1 + (int32_t)test_below(&r, 5), best = optimum(&h, depth);
        OWNED(sr_plan) *plan = pack(&h, "optimal", depth);
        CHECK(plan->packs >= best && plan->bound.packs <= best);
        CHECK(plan->packs <= best + 1);
        CHECK_OK(sr_pack_prove(&c, &h, &(sr_pack_opts){.max_seqs = depth}));
        CHECK(c.bound <= best && c.bound >= plan->bound.packs);
        CHECK_OK(sr_certificate_check(&c, &h));
        proven += c.bound == best, all++;
    }
    CHECK(proven * 100 >= all * 95);
}

/* ---- larger random cases ---- */

static void against_greedy(void) {
    static const char *const greedy[] = {"lpfhp", "spfhp", "bfd", "ffd", "bpcc", "none"};
    test_rng r = {22, 0};
    int64_t gap = 0;
    for (int i = 0; i < 2000; i++) {
        OWN(sr_histogram, h,
            random_histogram(&h, &r, 2 + test_below(&r, 300), i % 4 == 0 ? 4 : 3000));
        int32_t depth = i % 3 == 0 ? 0 : 1 + (int32_t)test_below(&r, 8);
        OWNED(sr_plan) *best = pack(&h, "optimal", depth);
        for (int s = 0; s < 6; s++) {
            OWNED(sr_plan) *plan = pack(&h, greedy[s], depth);
            CHECK(best->packs <= plan->packs);
            CHECK(best->bound.packs <= plan->packs);
            CHECK(best->bound.packs >= plan->bound.packs);
        }
        gap += sr_plan_gap(best);
        if (i % 10 == 0) {
            OWNED(sr_certificate) c = {0};
            CHECK_OK(sr_pack_prove(&c, &h, &(sr_pack_opts){.max_seqs = depth}));
            CHECK_OK(sr_certificate_check(&c, &h));
            CHECK(c.bound >= best->bound.packs && c.bound <= best->packs);
        }
    }
    CHECK(gap < 2000); /* less than one pack each */
}

/* ---- edges ---- */

/* Whether the plan has so many packs, and a bound as high. */
static bool is_exact(const sr_histogram *h, int32_t depth, int64_t packs) {
    OWNED(sr_plan) *plan = pack(h, "optimal", depth);
    return (packs < 0 || plan->packs == packs) && sr_plan_gap(plan) == 0;
}

static void edges(void) {
    OWN(sr_histogram, few, sr_histogram_new(&few, 512));
    CHECK(is_exact(&few, 0, 0));
    OWNED(sr_plan) *none = pack(&few, "optimal", 0);
    CHECK(sr_plan_efficiency(none) == 1);
    CHECK_OK(sr_histogram_add(&few, 77, 1, SR_LONG_ERROR));
    CHECK(is_exact(&few, 3, 1));
    OWN(sr_histogram, full, sr_histogram_new(&full, 512));
    CHECK_OK(sr_histogram_add(&full, 512, 1000, SR_LONG_ERROR));
    CHECK(is_exact(&full, 0, 1000));
    OWN(sr_histogram, ones, sr_histogram_new(&ones, SR_MAX_LENGTH));
    CHECK_OK(sr_histogram_add(&ones, 1, ((int64_t)1 << 45) + 1, SR_LONG_ERROR));
    for (int32_t depth = 0; depth < 3; depth++) CHECK(is_exact(&ones, depth, -1));
    CHECK_OK(sr_histogram_add(&ones, 40000, ((int64_t)1 << 33) + 5, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&ones, 20000, ((int64_t)1 << 33) + 7, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&ones, 13000, ((int64_t)1 << 34) + 1, SR_LONG_ERROR));
    OWNED(sr_plan) *many = pack(&ones, "optimal", 3);
    CHECK((double)sr_plan_gap(many) < 1e-6 * (double)many->packs);
    OWN(sr_histogram, large,
        sr_histogram_new(&large, 11)); /* beyond the exact integers of double */
    for (int32_t l = 2; l < 8; l++)
        CHECK_OK(sr_histogram_add(&large, l, ((int64_t)1 << 55) + l, SR_LONG_ERROR));
    for (int32_t depth = 0; depth < 4; depth++) {
        OWNED(sr_plan) *plan = pack(&large, "optimal", depth);
        CHECK(plan->bound.packs <= plan->packs);
    }
}

/* When stopped early, it returns the best plan so far with its gap; equal iterations give equal
 * plans.
 */
static void limits(void) {
    sr_plan *a = NULL, *b = NULL;
    OWN(sr_histogram, h, load_set(&h, "wikipedia_512"));
    sr_pack_opts opts = {.max_seqs = 4, .iterations = 300};
    CHECK_OK(sr_pack_solve(&a, &h, &opts));
    CHECK_OK(sr_pack_solve(&b, &h, &opts));
    CHECK(a->packs == b->packs && a->strategies == b->strategies);
    CHECK(a->packs <= 8657119 && a->bound.packs >= 8135727);
    sr_plan_free(a);
    sr_plan_free(b);
    opts = (sr_pack_opts){.max_seqs = 4, .seconds = 0.005};
    CHECK_OK(sr_pack_solve(&a, &h, &opts));
    CHECK(a->packs <= 8657119);
    sr_plan_free(a);
}

/* When the linear program reports convergence, its bound equals its packs, for any number of
 * lengths (pricing considers a part of them at a time). */
static void many_lengths(void) {
    enum { L = 1500 };
    OWNED(sr_certificate) c = {0};
    test_rng r = {23, 0};
    OWN(sr_histogram, h, sr_histogram_new(&h, L));
    for (int32_t l = 1; l <= L; l++)
        CHECK_OK(sr_histogram_add(&h, l, 1 + 1000000 / l + test_below(&r, 50), SR_LONG_ERROR));
    OWNED(sr_plan) *plan = pack(&h, "optimal", 6);
    CHECK(plan->bound.kind == SR_BOUND_LP && sr_plan_gap(plan) * 10000 < plan->packs);
    CHECK_OK(sr_pack_prove(&c, &h, &(sr_pack_opts){.max_seqs = 6}));
    CHECK(c.bound >= plan->bound.packs);
    CHECK_OK(sr_certificate_check(&c, &h));
}

/* Very many full patterns and a limit that nearly binds: log-normal counts of every length, 3.8
 * sequences per pack. */
static void full_patterns(void) {
    enum { L = 2048 };
    test_rng r = {25, 0};
    OWN(sr_histogram, h, sr_histogram_new(&h, L));
    for (int32_t l = 1; l <= L; l++) {
        double x = log((double)l / L) + 1.5;
        int64_t count = 1 + (int64_t)(1e4 / l * exp(-x * x / 0.7) * (80 + test_below(&r, 41)));
        CHECK_OK(sr_histogram_add(&h, l, count, SR_LONG_ERROR));
    }
    OWNED(sr_plan) *plan = pack(&h, "optimal", 4);
    CHECK(sr_plan_gap(plan) * 5000 < plan->packs && plan->deepest <= 4);
}

/* Long packs, many lengths, a limit that hardly binds: with exact knapsacks alone it takes a
 * minute.
 */
static void long_packs(void) {
    test_rng r = {24, 0};
    OWN(sr_histogram, h, sr_histogram_new(&h, SR_MAX_LENGTH));
    for (int32_t i = 0; i < 300; i++)
        CHECK_OK(sr_histogram_add(&h, 1 + test_below(&r, 20000), 1 + test_below(&r, 9000),
                                  SR_LONG_ERROR));
    OWNED(sr_plan) *plan = pack(&h, "optimal", 64);
    CHECK(sr_plan_gap(plan) * 500 < plan->packs && plan->deepest <= 64);
}

static void depth_by_itself(void) {
    static const struct {
        const char *set;
        int32_t depth;
    } wanted[] = {
        {"wikipedia_512", 4}, {"squad_384", 3}, {"glue_mrpc_128", 3}, {"glue_cola_128", 12}};
    for (int i = 0; i < 4; i++) {
        sr_depth_choice c;
        OWN(sr_histogram, h, load_set(&h, wanted[i].set));
        CHECK_OK(sr_pack_choose_depth(&c, &h, &(sr_pack_opts){.solver = "optimal"}, 0.0005));
        CHECK(c.max_seqs == wanted[i].depth && strstr(c.reason, "above the bound") != NULL);
    }
    OWNED(sr_histogram) h; /* out of time at once: returns the depth that never limits a pack */
    sr_depth_choice c;
    CHECK_OK(load_set(&h, "wikipedia_512"));
    CHECK_OK(sr_pack_choose_depth(&c, &h, &(sr_pack_opts){.seconds = 1e-9}, 0.0005));
    CHECK(c.max_seqs == 102 && c.packs >= c.bound && c.packs_below == 0);
    CHECK(strstr(c.reason, "no time to try fewer") != NULL);
}

/* The chosen depth is the smallest that packs as well as any, by exhaustive search. */
static void depth_is_the_smallest(void) {
    test_rng r = {44, 0};
    for (int i = 0; i < 60; i++) {
        sr_depth_choice c;
        OWN(sr_histogram, h, sr_histogram_new(&h, 24));
        for (int k = 0; k < 5; k++)
            CHECK_OK(sr_histogram_add(&h, 1 + test_below(&r, 24), 1 + test_below(&r, 30),
                                      SR_LONG_ERROR));
        CHECK_OK(sr_pack_choose_depth(&c, &h, &(sr_pack_opts){.solver = "optimal"}, 0));
        OWNED(sr_plan) *any = pack(&h, "optimal", 0);
        int64_t packs = INT64_MAX;
        int32_t depth = 0;
        while (packs > any->packs) {
            OWNED(sr_plan) *plan = pack(&h, "optimal", ++depth);
            packs = plan->packs;
        }
        CHECK(c.max_seqs == depth && c.packs == packs);
    }
}

static void out_of_memory(void) {
    sr_plan *plan;
    OWN(sr_histogram, h, load_set(&h, "glue_wnli_128"));
    sr_status st;
    int64_t live = sr_mem_live();
    STARVE_ANY(st, 16, false, false, sr_pack_solve(&plan, &h, &(sr_pack_opts){.max_seqs = 4})) {
        sr_plan_free(plan);
        CHECK(sr_mem_live() == live);
    }
}

int main(void) {
    CHECK(for_rows(PACKING_DATA "bounds.tsv", bounds_row) > 80);
    CHECK(for_rows(PACKING_DATA "reference_packing.tsv", nnlshp_row) > 180);
    published_certificates();
    against_brute_force();
    against_greedy();
    edges();
    limits();
    many_lengths();
    full_patterns();
    long_packs();
    depth_by_itself();
    depth_is_the_smallest();
    out_of_memory();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
