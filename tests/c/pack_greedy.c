/* The greedy solvers against the published reference implementations, and against packing the
 * sequences one by one. */
#include "core/base/mem.h"
#include "core/pack/bounds.h"
#include "tests/c/packing.h"

/* reference_packing.tsv: every row of spfhp and lpfhp. */
static void reference_row(const char *line) {
    char set[64], solver[32], depth[16];
    long long packs, strategies, padding, phantom, deepest;
    double efficiency, factor;
    if (sscanf(line, "%63s %31s %15s %lld %lld %lf %lf %lld %lld %lld", set, solver, depth, &packs,
               &strategies, &efficiency, &factor, &padding, &phantom, &deepest) != 10)
        return;
    if (strcmp(solver, "spfhp") != 0 && strcmp(solver, "lpfhp") != 0) return;
    OWN(sr_histogram, h, load_set(&h, set));
    OWNED(sr_plan) *plan = pack(&h, solver, atoi(depth));
    if (plan->packs != packs || (long long)plan->strategies != strategies)
        printf("%s %s %s: %lld packs, %zu strategies; wanted %lld, %lld\n", set, solver, depth,
               (long long)plan->packs, plan->strategies, packs, strategies);
    CHECK(plan->packs == packs && (long long)plan->strategies == strategies);
    CHECK(sr_plan_padding(plan) == padding && plan->deepest == deepest);
    CHECK(plan->bound.packs <= plan->packs && plan->unfilled == 0);
}

/* Number of packs of one-by-one packing, decreasing: best fit (oldest on ties) or first fit. */
static int64_t one_by_one(const sr_histogram *h, int32_t depth, bool best) {
    static int32_t space[20000], members[20000];
    int64_t packs = 0;
    for (int32_t l = h->capacity; l >= 1; l--)
        for (int64_t n = h->count[l]; n > 0; n--) {
            int64_t at = -1;
            for (int64_t i = 0; i < packs; i++) {
                if (space[i] < l || members[i] == depth) continue;
                if (at < 0 || (best && space[i] < space[at])) at = i;
                if (!best) break;
            }
            if (at < 0) at = packs++, space[at] = h->capacity, members[at] = 0;
            space[at] -= l, members[at]++;
        }
    return packs;
}

static int64_t packs_of(const sr_histogram *h, const char *solver, int32_t depth) {
    OWNED(sr_plan) *plan = pack(h, solver, depth);
    return plan != NULL ? plan->packs : -1;
}

static void against_one_by_one(void) {
    test_rng r = {7, 0};
    for (int i = 0; i < 1500; i++) {
        uint32_t capacity = 1 + test_below(&r, i % 3 == 0 ? 12 : 200);
        OWN(sr_histogram, h, random_histogram(&h, &r, capacity, 12));
        int32_t depth = i % 2 == 0 ? 0 : 1 + (int32_t)test_below(&r, 6);
        int32_t most = depth > 0 ? depth : (int32_t)capacity;
        CHECK(packs_of(&h, "ffd", depth) == one_by_one(&h, most, false));
        if (depth == 0) CHECK(packs_of(&h, "bfd", 0) == one_by_one(&h, most, true));
        CHECK(packs_of(&h, "none", depth) == h.sequences);
        CHECK(packs_of(&h, "lpfhp", depth) >= sr_bound_cheap(&h, depth).packs);
        CHECK(packs_of(&h, "spfhp", depth) >= sr_bound_cheap(&h, depth).packs);
    }
}

/* L2 by its definition. */
static int64_t plain_l2(const sr_histogram *h) {
    int64_t L = h->capacity, best = 0;
    for (int64_t a = 0; a <= L / 2; a++) {
        int64_t alone = 0, pairs = 0, room = 0, small = 0;
        for (int64_t l = 1; l <= L; l++) {
            if (l > L - a)
                alone += h->count[l];
            else if (l > L / 2)
                pairs += h->count[l], room += h->count[l] * (L - l);
            else if (l >= a)
                small += h->count[l] * l;
        }
        int64_t rest = small > room ? (small - room + L - 1) / L : 0;
        if (alone + pairs + rest > best) best = alone + pairs + rest;
    }
    return best;
}

static void bounds(void) {
    test_rng r = {8, 0};
    for (int i = 0; i < 500; i++) {
        OWN(sr_histogram, h, random_histogram(&h, &r, 1 + test_below(&r, 90), 30));
        CHECK(sr_bound_l2(&h) == plain_l2(&h));
    }
}

static void edges(void) {
    static const char *const solvers[] = {"spfhp", "lpfhp", "bfd", "ffd", "bpcc", "none"};
    for (int s = 0; s < 6; s++) {
        OWN(sr_histogram, h, sr_histogram_new(&h, SR_MAX_LENGTH));
        CHECK(packs_of(&h, solvers[s], 0) == 0);
        CHECK_OK(sr_histogram_add(&h, SR_MAX_LENGTH, 5, SR_LONG_ERROR));
        CHECK(packs_of(&h, solvers[s], 3) == 5);
        CHECK_OK(sr_histogram_add(&h, 1, ((int64_t)1 << 40) + 1, SR_LONG_ERROR));
        int64_t ones = ((int64_t)1 << 40) + 1, full = ones / SR_MAX_LENGTH + 1;
        if (s > 0 && s < 5) CHECK(packs_of(&h, solvers[s], 0) == full + 5);
        CHECK(packs_of(&h, solvers[s], 1) == ones + 5);
    }
    sr_plan *plan;
    OWN(sr_histogram, h, sr_histogram_new(&h, 8));
    CHECK_FAILS(sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "magic"}), SR_EINVAL, "lpfhp");
    CHECK_FAILS(sr_pack_solve(&plan, &h, &(sr_pack_opts){.max_seqs = -1}), SR_EINVAL, "max_seqs");
}

int main(void) {
    CHECK(for_rows(PACKING_DATA "reference_packing.tsv", reference_row) > 150);
    against_one_by_one();
    bounds();
    edges();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
