/* Instances: every sequence once per epoch, in packs that fit, regrouped in each epoch. */
#include "core/base/mem.h"
#include "core/pack/instances.h"
#include "tests/c/packing.h"

OWNER(sr_packing, sr_packing_free)

static uint16_t length[200000];

/* Lengths in random order for a histogram. */
static int64_t assign(const sr_histogram *h, test_rng *r) {
    int64_t n = 0;
    for (int32_t l = 1; l <= h->capacity; l++)
        for (int64_t i = 0; i < h->count[l]; i++) length[n++] = (uint16_t)l;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = test_below(r, (uint32_t)i + 1);
        uint16_t swap = length[i];
        length[i] = length[j], length[j] = swap;
    }
    return n;
}

/* True if each uid of an epoch occurs exactly once and each pack fits. */
static bool epoch_is_exact(const sr_packing *k, const sr_plan *plan, uint32_t epoch, int64_t n) {
    static uint8_t seen[200000];
    static uint32_t uids[65535];
    memset(seen, 0, (size_t)n);
    bool good = true;
    int64_t total = 0;
    for (int64_t i = 0; i < sr_packing_packs(k); i++) {
        int32_t m, tokens = 0;
        CHECK_OK(sr_packing_at(k, epoch, i, uids, &m));
        for (int32_t j = 0; j < m; j++) {
            good = good && uids[j] < n && seen[uids[j]]++ == 0;
            tokens += length[uids[j]];
        }
        total += m;
        good = good && tokens <= plan->capacity && m <= sr_packing_deepest(k);
        good = good && (plan->max_seqs == 0 || m <= plan->max_seqs);
    }
    return good && total == n;
}

static void exactly_once(void) {
    const char *const solvers[] = {"lpfhp", "spfhp", "ffd", "none"};
    test_rng r = {11, 0};
    for (int i = 0; i < 300; i++) {
        OWN(sr_histogram, h, random_histogram(&h, &r, 1 + test_below(&r, 100), 40));
        sr_pack_opts opts = {.solver = solvers[i % 4], .max_seqs = (int32_t)test_below(&r, 5)};
        OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &opts));
        sr_lengths table = {length, 2, assign(&h, &r)};
        OWN(sr_packing, *k, sr_packing_new(&k, plan, &table, 42));
        for (uint32_t epoch = 0; epoch < 3; epoch++)
            CHECK(epoch_is_exact(k, plan, epoch, table.count));
    }
}

/* Unfilled slots are padding: no sequence is lost or repeated. */
static void unfilled_slots(void) {
    OWN(sr_histogram, h, sr_histogram_new(&h, 8));
    CHECK_OK(sr_histogram_add(&h, 3, 5, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&h, 5, 3, SR_LONG_ERROR));
    OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "none"}));
    plan->pattern[0].count += 4; /* rounded up: 7 slots of 5 for 3 sequences, 9 of 3 for 5 */
    plan->pattern[1].count += 4;
    plan->packs += 8;
    plan->unfilled = 8;
    CHECK_OK(sr_plan_check(plan));
    test_rng r = {3, 0};
    sr_lengths table = {length, 2, assign(&h, &r)};
    OWN(sr_packing, *k, sr_packing_new(&k, plan, &table, 1));
    CHECK(sr_packing_packs(k) == 16);
    for (uint32_t epoch = 0; epoch < 20; epoch++) CHECK(epoch_is_exact(k, plan, epoch, 8));
}

static int64_t position_of(const sr_packing *k, uint32_t epoch, uint32_t uid, uint32_t *partner) {
    uint32_t uids[65];
    int32_t m;
    for (int64_t i = 0; i < sr_packing_packs(k); i++) {
        sr_packing_at(k, epoch, i, uids, &m);
        for (int32_t j = 0; j < m; j++)
            if (uids[j] == uid) return *partner = m > 1 ? uids[j == 0] : uid, i;
    }
    return -1;
}

static void epochs_differ(void) {
    test_rng r = {5, 0};
    OWN(sr_histogram, h, sr_histogram_new(&h, 64));
    CHECK_OK(sr_histogram_add(&h, 40, 500, SR_LONG_ERROR));
    CHECK_OK(sr_histogram_add(&h, 24, 500, SR_LONG_ERROR));
    OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "lpfhp"}));
    sr_lengths table = {length, 2, assign(&h, &r)};
    OWN(sr_packing, *k, sr_packing_new(&k, plan, &table, 1));
    OWN(sr_packing, *other, sr_packing_new(&other, plan, &table, 2));
    uint32_t a, b, c;
    int same = 0, moved = 0;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        int64_t i = position_of(k, epoch, 7, &a), j = position_of(k, epoch + 1, 7, &b);
        int64_t o = position_of(other, epoch, 7, &c);
        same += (a == b) + (a == c);
        moved += (i != j) + (i != o);
    }
    CHECK(same <= 2 && moved >= 38);
}

/* The position of a sequence in the epoch is uniform: chi-square over 10 intervals. */
static void order_is_uniform(void) {
    test_rng r = {6, 0};
    OWN(sr_histogram, h, sr_histogram_new(&h, 4));
    CHECK_OK(sr_histogram_add(&h, 4, 97, SR_LONG_ERROR));
    OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "lpfhp"}));
    sr_lengths table = {length, 2, assign(&h, &r)};
    OWN(sr_packing, *k, sr_packing_new(&k, plan, &table, 9));
    int hits[97] = {0};
    for (uint32_t epoch = 0; epoch < 9700; epoch++) {
        uint32_t uid;
        int32_t m;
        CHECK_OK(sr_packing_at(k, epoch, 13, &uid, &m));
        hits[uid]++;
    }
    double chi = 0;
    for (int i = 0; i < 97; i++) chi += (hits[i] - 100) * (hits[i] - 100) / 100.0;
    CHECK(chi < 149); /* 96 degrees of freedom: exceeded by one uniform table in 2,400 */
}

static void known_answers(void) {
    sr_packing *k;
    OWN(sr_histogram, h, sr_histogram_new(&h, 10));
    CHECK_OK(sr_histogram_add(&h, 5, 100, SR_LONG_ERROR));
    OWN(sr_plan, *plan, sr_pack_solve(&plan, &h, &(sr_pack_opts){.solver = "lpfhp"}));
    for (int i = 0; i < 100; i++) length[i] = 5;
    sr_lengths table = {length, 2, 100};
    CHECK_OK(sr_packing_new(&k, plan, &table, 1234));
    uint32_t uids[2], first[2];
    int32_t m;
    CHECK_OK(sr_packing_at(k, 3, 17, first, &m));
    CHECK_OK(sr_packing_at(k, 3, 17, uids, &m)); /* stateless */
    CHECK(m == 2 && uids[0] == first[0] && uids[1] == first[1]);
    CHECK(first[0] == 70 && first[1] == 66); /* a fixed value, on every machine and version */
    CHECK_FAILS(sr_packing_at(k, 0, 50, uids, &m), SR_EINVAL, "index 50 is out of range");
    CHECK_FAILS(sr_packing_at(k, 0, -1, uids, &m), SR_EINVAL, "index -1 is out of range");
    sr_packing_free(k);
    length[99] = 4;
    CHECK_FAILS(sr_packing_new(&k, plan, &table, 1), SR_EDATA, "sequence 99 of 4 tokens");
    table.count = 99;
    CHECK_FAILS(sr_packing_new(&k, plan, &table, 1), SR_EDATA, "the list has 99");
}

int main(void) {
    exactly_once();
    unfilled_slots();
    epochs_differ();
    order_is_uniform();
    known_answers();
    CHECK(sr_mem_live() == 0);
    return CHECK_DONE();
}
