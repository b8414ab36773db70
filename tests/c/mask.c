/* Masking: how many tokens, which ones, with what, as a function of the key alone. */
#include "core/batch/mask.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"

enum { V = 50, LEN = 100, TRIALS = 20000 };

static int32_t specials[] = {0, 1, 2, 3, 4};

static const sr_masker plain = {.seed = 11,
                                .prob = 0.15,
                                .max_predictions = 20,
                                .vocabulary = V,
                                .mask_id = 4,
                                .frame = {2, 3},
                                .frame_count = 2,
                                .specials = specials,
                                .special_count = 5};

static void sequence(int32_t *ids, int32_t len) {
    for (int32_t i = 0; i < len; i++) ids[i] = 5 + i * 7 % (V - 5);
    ids[0] = 2;
    ids[len / 2] = ids[len - 1] = 3;
}

/* Pearson's chi-square statistic against equal or given frequencies. */
static double chi_square(const int64_t *seen, const double *share, int classes, int64_t total) {
    double sum = 0;
    for (int c = 0; c < classes; c++) {
        double wanted = share[c] * (double)total;
        sum += ((double)seen[c] - wanted) * ((double)seen[c] - wanted) / wanted;
    }
    return sum;
}

/* Five standard deviations above the mean of a chi-square variable: p < 1e-5. */
static double bound(int freedom) {
    return freedom + 5 * sqrt(2.0 * freedom) + 10;
}

static void check_proportions(void) {
    int64_t kind[3] = {0}, where[LEN] = {0}, with[V] = {0}, total = 0, random = 0;
    for (uint32_t uid = 0; uid < TRIALS; uid++) {
        int32_t ids[LEN], before[LEN], scratch[LEN], positions[20], labels[20], count;
        sequence(ids, LEN);
        memcpy(before, ids, sizeof ids);
        sr_mask_draw(positions, labels, &count, ids, LEN, NULL, uid, 0, &plain, scratch);
        CHECK(count == 15);
        for (int32_t i = 0; i < count; i++) {
            int32_t at = positions[i];
            if (labels[i] != before[at] || at == 0 || at == LEN / 2 || at == LEN - 1 ||
                (i > 0 && at <= positions[i - 1]))
                CHECK(!"a masked position is wrong");
            int what = ids[at] == 4 ? 0 : ids[at] == before[at] ? 2 : 1;
            kind[what]++, where[at]++, total++;
            if (what == 1) with[ids[at]]++, random++;
            before[at] = ids[at];
        }
        CHECK(memcmp(before, ids, sizeof ids) == 0);
    }
    /* one random replacement in V - 5 is the token itself and looks unchanged */
    double stray = 0.1 / (V - 5);
    double kinds[3] = {0.8, 0.1 - stray, 0.1 + stray}, place[LEN - 3], id[V - 5];
    for (int i = 0; i < LEN - 3; i++) place[i] = 1.0 / (LEN - 3);
    for (int i = 0; i < V - 5; i++) id[i] = 1.0 / (V - 5);
    CHECK(chi_square(kind, kinds, 3, total) < bound(2));
    int64_t open[LEN];
    int n = 0;
    for (int i = 1; i < LEN - 1; i++)
        if (i != LEN / 2) open[n++] = where[i];
    CHECK(chi_square(open, place, n, total) < bound(n - 1));
    for (int v = 0; v < 5; v++) CHECK(with[v] == 0);
    CHECK(chi_square(with + 5, id, V - 5, random) <
          bound(V - 6) * 1.5); /* the text does not use all tokens equally */
}

static void check_numbers(void) {
    struct {
        int32_t len, most, wanted;
    } cases[] = {{1, 20, 1}, {3, 20, 1}, {10, 20, 2}, {128, 20, 19}, {140, 20, 20}, {512, 76, 76}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_masker m = plain;
        m.max_predictions = cases[i].most;
        CHECK(sr_mask_limit(&m, cases[i].len) == cases[i].wanted);
    }
    int32_t ids[3] = {2, 3, 3}, scratch[3], positions[1], labels[1], count;
    sr_mask_draw(positions, labels, &count, ids, 3, NULL, 0, 0, &plain, scratch);
    CHECK(count == 0 && ids[0] == 2);
}

/* True if these keys give other positions, and other ids if all are masked. */
static void check_key(uint32_t uid, uint32_t epoch, uint64_t seed, bool other) {
    for (int all = 0; all < 2; all++) {
        int32_t a[LEN], b[LEN], scratch[LEN], p[LEN], q[LEN], l[LEN], n;
        sr_masker m = plain;
        m.prob = all ? 1 : 0.15, m.max_predictions = LEN;
        sequence(a, LEN), sequence(b, LEN);
        sr_mask_draw(p, l, &n, a, LEN, NULL, 7, 3, &m, scratch);
        m.seed = seed;
        sr_mask_draw(q, l, &n, b, LEN, NULL, uid, epoch, &m, scratch);
        CHECK(n == (all ? LEN - 3 : 15));
        CHECK((memcmp(p, q, (size_t)n * sizeof *p) != 0) == (other && !all));
        CHECK((memcmp(a, b, sizeof a) != 0) == other);
    }
}

static void check_keys(void) {
    check_key(7, 3, plain.seed, false);
    check_key(8, 3, plain.seed, true);
    check_key(7, 4, plain.seed, true);
    check_key(7, 3, plain.seed + 1, true);
}

/* Words of three pieces: masked whole or not at all, never more tokens than requested. */
static void check_whole_words(void) {
    uint8_t continues[V] = {0};
    for (int v = 30; v < V; v++) continues[v] = 1;
    sr_masker m = plain;
    m.whole_word = true, m.continues = continues;
    CHECK_OK(sr_masker_check(&m));
    for (uint32_t uid = 0; uid < 2000; uid++) {
        int32_t ids[LEN], scratch[LEN], p[20], l[20], n, most = 13 + (int32_t)uid % 3;
        m.max_predictions = most;
        bool masked[LEN] = {false};
        for (int i = 0; i < LEN; i++) ids[i] = i % 3 == 1 ? 5 + i % 25 : 30 + i % 20;
        ids[0] = 2, ids[LEN - 1] = 3;
        sr_mask_draw(p, l, &n, ids, LEN, NULL, uid, 0, &m, scratch);
        CHECK(n <= most && n >= most - 2);
        for (int i = 0; i < n; i++) masked[p[i]] = true;
        for (int i = 1; i + 2 < LEN - 1; i += 3)
            if (masked[i] != masked[i + 1] || masked[i] != masked[i + 2])
                CHECK(!"a word is masked in part");
    }
    /* the rest of a truncated word after [CLS] or [SEP] counts as a word */
    int32_t ids[] = {2, 30, 31, 3, 32, 3}, scratch[6], p[6], l[6], n;
    m.prob = 1;
    sr_mask_draw(p, l, &n, ids, 6, NULL, 0, 0, &m, scratch);
    CHECK(n == 3 && p[0] == 1 && p[1] == 2 && p[2] == 4);
}

/* Words by places, not by ids: the same ids mask as other words. */
static void check_words_by_place(void) {
    int32_t ids[] = {2, 10, 10, 10, 3, 10, 3}, scratch[7], p[7], l[7], n;
    const uint8_t goes_on[] = {0, 0, 1, 1, 0, 1, 0};
    sr_masker m = plain;
    m.whole_word = m.by_place = true;
    CHECK_OK(sr_masker_check(&m));
    for (uint32_t uid = 0; uid < 100; uid++) {
        int32_t now[7];
        memcpy(now, ids, sizeof ids);
        m.prob = 0.3; /* two tokens: only the word of one token fits */
        sr_mask_draw(p, l, &n, now, 7, goes_on, uid, 0, &m, scratch);
        CHECK(n == 1 && p[0] == 5);
        memcpy(now, ids, sizeof ids);
        m.prob = 0.43;
        sr_mask_draw(p, l, &n, now, 7, goes_on, uid, 0, &m, scratch);
        CHECK(n == 1 ? p[0] == 5 : n == 3 && p[0] == 1 && p[1] == 2 && p[2] == 3);
    }
}

/* Two concepts: the ids 10 11 (stage 1), and 10 11 12 (stage 2). */
static sr_concepts *two_concepts(void) {
    const int32_t ids[] = {10, 11, 12, 10, 11}, len[] = {3, 2}, stage[] = {2, 1};
    sr_concepts *c;
    CHECK_OK(sr_concepts_new(&c, ids, len, stage, 2, NULL, V));
    return c;
}

static void check_matching(void) {
    sr_concepts *c = two_concepts();
    uint8_t continues[V] = {0};
    continues[20] = 1;
    const int32_t ids[] = {10, 11, 12, 10, 11, 20, 10, 11};
    sr_wording w = {ids, NULL, continues, 8};
    int64_t form = -1;
    CHECK(sr_concepts_at(&form, c, &w, 0, 1) == 2 && form == 1);
    CHECK(sr_concepts_at(&form, c, &w, 0, 2) == 3 && form == 0);
    CHECK(sr_concepts_at(NULL, c, &w, 1, 2) == 0);
    CHECK(sr_concepts_at(NULL, c, &w, 3, 2) == 0); /* it would end inside a word */
    CHECK(sr_concepts_at(NULL, c, &w, 6, 2) == 2); /* at the end of the text */
    const uint8_t goes_on[] = {0, 0, 0, 1, 0, 0, 0, 0};
    w.goes_on = goes_on;
    CHECK(sr_concepts_at(NULL, c, &w, 3, 2) == 0 && sr_concepts_at(NULL, c, &w, 0, 2) == 2);
    sr_concepts_free(c);
    const int32_t bad[] = {V}, one[] = {1}, zero[] = {0};
    CHECK_FAILS(sr_concepts_new(&c, bad, one, one, 1, NULL, V), SR_EINVAL,
                "outside the vocabulary");
    CHECK_FAILS(sr_concepts_new(&c, one, one, zero, 1, NULL, V), SR_EINVAL, "stage 0");
    CHECK_FAILS(sr_concepts_new(&c, one, zero, one, 1, NULL, V), SR_EINVAL, "0 tokens");
}

/* Concepts are masked whole, replaced alike, first, and within their share; the number stays. */
static void check_concepts(void) {
    sr_concepts *c = two_concepts();
    uint8_t continues[V] = {0}, roles[LEN];
    sr_masker m = plain;
    m.continues = continues, m.concepts = (sr_concept_masks){.table = c, .share = 1};
    CHECK_OK(sr_masker_check(&m));
    int kept = 0, hidden = 0;
    for (uint32_t uid = 0; uid < 2000; uid++) {
        int32_t ids[LEN], before[LEN], scratch[LEN], p[20], l[20], n, in = 0;
        bool masked[LEN] = {false};
        for (int i = 0; i < LEN; i++) ids[i] = 13 + i % (V - 13);
        for (int i = 10; i < 90; i += 10) ids[i] = 10, ids[i + 1] = 11;
        ids[0] = 2, ids[LEN - 1] = 3;
        memcpy(before, ids, sizeof ids);
        m.concepts.share = uid % 2 == 0 ? 1 : 0.4;
        sr_mask_draw_concepts(p, l, &n, ids, LEN, NULL, uid, 0, &m, 1, scratch, roles);
        for (int i = 0; i < n; i++) masked[p[i]] = l[i] == before[p[i]];
        for (int i = 10; i < 90; i += 10) {
            if (roles[i] == 0) continue;
            in += 2;
            CHECK(masked[i] && masked[i + 1] && (ids[i] == 4) == (ids[i + 1] == 4));
            hidden += ids[i] == 4, kept += ids[i] == 10;
        }
        CHECK(n == 15 && in == (uid % 2 == 0 ? 14 : 6));
    }
    CHECK(hidden > 7800 && hidden < 8200 && kept > 850);
    int32_t a[LEN], b[LEN], scratch[LEN], p[20], l[20], n;
    m.concepts.share = 0;
    sequence(a, LEN);
    memcpy(b, a, sizeof a);
    sr_mask_draw_concepts(p, l, &n, a, LEN, NULL, 7, 3, &m, 2, scratch, roles);
    sr_mask_draw(p, l, &n, b, LEN, NULL, 7, 3, &plain, scratch);
    CHECK(memcmp(a, b, sizeof a) == 0);
    int64_t late[] = {3, 9}, wrong[] = {9, 9};
    m.concepts.from = late, m.concepts.stages = 2;
    CHECK(sr_concept_masks_at(&m.concepts, 2) == 0 && sr_concept_masks_at(&m.concepts, 3) == 1 &&
          sr_concept_masks_at(&m.concepts, 9) == 2);
    m.concepts.from = wrong;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "stage 2 begins with update 9");
    m.concepts.from = late, m.concepts.share = 2;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "share is 2");
    m.concepts.share = 1, m.continues = NULL;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "continue a word");
    sr_concepts_free(c);
}

static void check_refusals(void) {
    sr_masker m = plain;
    m.prob = 0;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "probability");
    m = plain, m.mask_id = V;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "[MASK]");
    m = plain, m.vocabulary = 5;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "only 5 special tokens");
    int32_t twice[] = {0, 0, 2, 3, 4};
    m = plain, m.specials = twice;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "ascend");
    m = plain, m.whole_word = true;
    CHECK_FAILS(sr_masker_check(&m), SR_EINVAL, "continue");
    CHECK_OK(sr_masker_check(&plain));
}

int main(void) {
    check_proportions();
    check_numbers();
    check_keys();
    check_whole_words();
    check_words_by_place();
    check_matching();
    check_concepts();
    check_refusals();
    return CHECK_DONE();
}
