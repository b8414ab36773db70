/* packing.h - helpers of the tests of core/pack: reference tables and random histograms. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/rng.h"
#include "core/pack/certificate.h"
#include "core/pack/histogram.h"
#include "core/pack/pack.h"
#include "core/pack/plan.h"
#include "tests/support/check.h"

OWNER(sr_plan, sr_plan_free)
#define sr_histogram_owned sr_histogram_free /* a value, not a pointer */
#define sr_certificate_owned sr_certificate_free

#define PACKING_DATA "tests/data/packing/"

/* A deterministic stream of random numbers. */
typedef struct test_rng {
    uint64_t seed;
    uint32_t calls;
} test_rng;

static inline uint32_t test_below(test_rng *r, uint32_t n) {
    sr_u32x4 c = {{r->calls++, 0, 0, 0}};
    return sr_below(sr_philox(c, r->seed, SR_ROUNDS_DATA).w[0], n);
}

/* Up to `most` sequences of up to 20 different lengths, in one of several shapes. */
static inline sr_status random_histogram(sr_histogram *h, test_rng *r, uint32_t capacity,
                                         uint32_t most) {
    SR_TRY(sr_histogram_new(h, capacity));
    uint32_t rows = 1 + test_below(r, 20), shape = test_below(r, 4);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t l = 1 + test_below(r, capacity);
        if (shape == 1) l = 1 + l / 4;        /* short ones */
        if (shape == 2) l = capacity - l / 3; /* long ones */
        if (shape == 3) l = 1 + capacity / (1 + l % 5) - (capacity > 20 ? l % 3 : 0);
        if (l < 1 || l > capacity) l = capacity;
        SR_TRY(sr_histogram_add(h, l, test_below(r, most + 1), SR_LONG_ERROR));
    }
    return SR_OK;
}

/* A plan that holds what it says. */
static inline sr_plan *pack(const sr_histogram *h, const char *solver, int32_t depth) {
    sr_plan *plan = NULL;
    CHECK_OK(sr_pack_solve(&plan, h, &(sr_pack_opts){.solver = solver, .max_seqs = depth}));
    CHECK(plan != NULL && sr_plan_check(plan) == SR_OK);
    return plan;
}

/* Calls `row` with each line of a table; their number. */
static inline int for_rows(const char *path, void (*row)(const char *)) {
    char line[1024];
    int rows = 0;
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    for (; f != NULL && fgets(line, sizeof line, f) != NULL; rows++) row(line);
    if (f != NULL) fclose(f);
    return rows;
}

static inline sr_status load_set(sr_histogram *h, const char *set) {
    char path[256];
    snprintf(path, sizeof path, PACKING_DATA "%s.hist", set);
    return sr_histogram_load(h, path, 0, SR_LONG_ERROR);
}
