/* token_drop.c - the tokens that a layer keeps: how many, which, whatever the neighbours are. */
#include <math.h>
#include <stdlib.h>

#include "tests/c/owners.h"
#include "tests/support/fail.h"

enum { SEQUENCES = 40, LONGEST = 200, ROWS = 128 * 64 };

static int32_t len[SEQUENCES];
static uint32_t uid[SEQUENCES];

static int count(const uint8_t *keep, int64_t n) {
    int kept = 0;
    for (int64_t i = 0; i < n; i++) kept += keep[i];
    return kept;
}

static void test_counts(const sr_layout *l) {
    const double shares[] = {0.001, 0.3, 0.5, 0.77, 1};
    static uint8_t keep[ROWS];
    for (int k = 0; k < 5; k++)
        for (int forced = 0; forced < 4; forced++) {
            sr_token_drop_opts o = {shares[k], 3, forced & 1, forced & 2};
            memset(keep, 0, sizeof keep);
            keep[ROWS - 1] = 1; /* slack is never kept */
            CHECK_OK(sr_token_drop_mark(keep, l, &o));
            CHECK(keep[ROWS - 1] == 0);
            for (int s = 0; s < l->sequences; s++) {
                const uint8_t *own = keep + l->start[s];
                int n = l->len[s], least = (forced & 1) + (forced & 2) / 2;
                int wanted = (int)lround(shares[k] * n);
                if (least > n) least = n;
                if (wanted < least) wanted = least;
                CHECK(count(own, n) == (wanted > 1 ? wanted : 1));
                CHECK((!(forced & 1) || own[0]) && (!(forced & 2) || own[n - 1]));
            }
        }
}

/* Rows that the caller wants kept are, and count among the fraction. */
static void test_forced(const sr_layout *l) {
    static uint8_t keep[ROWS];
    sr_token_drop_opts o = {0.5, 0, false, false};
    for (int64_t t = 0; t < l->rows; t++) keep[t] = l->position[t] % 3 == 1 ? 9 : 0;
    CHECK_OK(sr_token_drop_mark(keep, l, &o));
    for (int64_t t = 0; t < l->rows; t++)
        CHECK(l->owner[t] < 0 || l->position[t] % 3 != 1 || keep[t] == 1);
    for (int s = 0; s < l->sequences; s++)
        CHECK(count(keep + l->start[s], l->len[s]) == (int)lround(0.5 * l->len[s]));
}

/* Alone, and in another order with other neighbours: the same positions. */
static void test_alone(const sr_layout *l) {
    static uint8_t keep[ROWS], own[LONGEST];
    sr_token_drop_opts o = {0.4, 7, true, false};
    memset(keep, 0, sizeof keep);
    CHECK_OK(sr_token_drop_mark(keep, l, &o));
    for (int s = 0; s < l->sequences; s++) {
        memset(own, 0, sizeof own);
        OWN(sr_layout, *alone,
            sr_layout_new(&alone, 1, NULL, &l->len[s], &l->uid[s], &l->epoch[s], 0, l->seed));
        CHECK_OK(sr_token_drop_mark(own, alone, &o));
        CHECK(memcmp(own, keep + l->start[s], (size_t)l->len[s]) == 0);
    }
}

/* Each position is kept as often as any other, and layers draw apart. */
static void test_even(void) {
    enum { N = 20, DRAWS = 4000 };
    int hits[N] = {0}, same = 0;
    for (uint32_t u = 0; u < DRAWS; u++) {
        uint8_t a[N] = {0}, b[N] = {0};
        sr_token_drop_opts o = {0.5, 1, false, false}, other = {0.5, 2, false, false};
        OWN(sr_layout, *l, sr_layout_new(&l, 1, NULL, (int32_t[]){N}, &u, NULL, 0, 5));
        CHECK_OK(sr_token_drop_mark(a, l, &o));
        CHECK_OK(sr_token_drop_mark(b, l, &other));
        for (int i = 0; i < N; i++) hits[i] += a[i], same += a[i] == b[i];
    }
    /* five deviations of a fair coin */
    for (int i = 0; i < N; i++) CHECK(abs(hits[i] - DRAWS / 2) < 5 * sqrt(DRAWS) / 2);
    CHECK(abs(same - N * DRAWS / 2) < 5 * sqrt(N * DRAWS) / 2);
}

/* Several layers at once: each draws what it would alone, and all fit one layout. */
static void test_layers(const sr_layout *l) {
    enum { LAYERS = 3, UNIT = 64 };
    static uint8_t forced[ROWS], keep[ROWS];
    sr_token_drop_opts o = {0.4, 5, true, true};
    sr_layout *shorter = NULL;
    int32_t *rows = NULL;
    memset(forced, 0, sizeof forced);
    for (int s = 0; s < l->sequences; s++) forced[l->start[s] + l->len[s] / 2] = 1;
    CHECK_OK(sr_token_drop_layers(&shorter, &rows, l, forced, &o, LAYERS, UNIT));
    CHECK(shorter->rows % UNIT == 0 && shorter->rows - shorter->tokens < UNIT);
    CHECK(shorter->sequences == l->sequences && shorter->seed == l->seed);
    for (uint32_t k = 0; k < LAYERS; k++) {
        sr_token_drop_opts alone = {o.fraction, o.layer + k, true, true};
        memcpy(keep, forced, sizeof keep);
        CHECK_OK(sr_token_drop_mark(keep, l, &alone));
        CHECK(count(keep, ROWS) == shorter->tokens);
        const int32_t *own = rows + k * shorter->tokens;
        for (int64_t i = 0; i < shorter->tokens; i++) {
            CHECK(keep[own[i]] == 1 && (i == 0 || own[i - 1] < own[i]));
            CHECK(l->owner[own[i]] == shorter->owner[i]);
        }
    }
    sr_free(rows);
    sr_layout_release(shorter);
    int64_t live = sr_mem_live();
    sr_status st;
    STARVE(st, false, sr_token_drop_layers(&shorter, &rows, l, NULL, &o, LAYERS, UNIT)) {
        sr_free(rows);
        sr_layout_release(shorter);
        CHECK(sr_mem_live() == live);
    }
}

static void test_errors(const sr_layout *l) {
    static uint8_t keep[ROWS];
    sr_token_drop_opts none = {.fraction = 0}, much = {.fraction = 1.5},
                       deep = {.fraction = 1, .layer = 4096};
    CHECK_FAILS(sr_token_drop_mark(keep, l, &none), SR_EINVAL, "choose one in (0, 1]");
    CHECK_FAILS(sr_token_drop_mark(keep, l, &much), SR_EINVAL, "is 1.5");
    CHECK_FAILS(sr_token_drop_mark(keep, l, &deep), SR_EINVAL, "below 4096");
    sr_token_drop_opts fine = {.fraction = 0.5};
    sr_mem_fail_at(1, false);
    CHECK_FAILS(sr_token_drop_mark(keep, l, &fine), SR_ENOMEM, "");
    sr_mem_fail_at(0, false);
}

int main(void) {
    int64_t live = sr_mem_live();
    sr_layout *l;
    for (int s = 0; s < SEQUENCES; s++) len[s] = 1 + s * 37 % LONGEST, uid[s] = 1000u - (uint32_t)s;
    CHECK_OK(sr_layout_new(&l, SEQUENCES, NULL, len, uid, NULL, ROWS, 11));
    test_counts(l);
    test_forced(l);
    test_alone(l);
    test_even();
    test_layers(l);
    test_errors(l);
    sr_layout_release(l);
    CHECK(sr_mem_live() == live);
    return CHECK_DONE();
}
