/* nnlshp.c - the published least-squares packing: patterns that fill a pack exactly, mixed to match
 * the histogram, rounded, and cleaned up with pairs.
 * Source: Krell et al. 2021, arXiv:2107.02027; packing paper reference implementation. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/build.h"
#include "core/pack/lp/nnls.h"
#include "core/pack/solvers.h"

enum { PUBLISHED_DEPTH = 3, SHORT = 8, MOST_PATTERNS = 16 << 20, MOST_LENGTH = 8192 };
static const double SHORT_WEIGHT = 0.09; /* leftover short sequences cost little */

typedef struct partitions {
    uint16_t *row;
    int32_t width;
    int64_t count, room;
} partitions;

typedef struct limits { /* 0: none */
    int64_t iterations;
    double deadline;
} limits;

static sr_status add_partition(partitions *q, const uint16_t *part, int32_t n) {
    if (q->count == MOST_PATTERNS)
        return sr_fail(
            SR_EINVAL,
            "pack: nnlshp has more than %d patterns at this depth; lower max_seqs, or use "
            "the solver optimal",
            MOST_PATTERNS);
    if (q->count == q->room) {
        int64_t room = q->room > 0 ? q->room * 2 : 4096;
        SR_TRY(sr_grow(&q->row, room * q->width));
        q->room = room;
    }
    uint16_t *to = q->row + q->count++ * q->width;
    memset(to, 0, (size_t)q->width * sizeof *to);
    memcpy(to, part, (size_t)n * sizeof *to);
    return SR_OK;
}

/* All ways to write `rest` as up to `depth` parts >= least, ascending. */
static sr_status enumerate(partitions *q, uint16_t *part, int32_t n, int32_t least, int32_t rest) {
    if (n + 1 < q->width)
        for (int32_t l = least; 2 * l <= rest; l++) {
            part[n] = (uint16_t)l;
            SR_TRY(enumerate(q, part, n + 1, l, rest - l));
        }
    part[n] = (uint16_t)rest;
    return add_partition(q, part, n + 1);
}

static sr_status mix(double *x, const partitions *q, const sr_histogram *h, const limits *most,
                     uint32_t tie) {
    double *weight;
    size_t rows = (size_t)h->capacity + 1;
    SR_TRY(sr_new(&weight, 2 * rows));
    double *target = weight + rows;
    for (int32_t l = 1; l <= h->capacity; l++) {
        weight[l] = l <= SHORT ? SHORT_WEIGHT * SHORT_WEIGHT : 1;
        target[l] = (double)h->count[l];
    }
    sr_nnls problem = {q->row, q->width, q->count, h->capacity,
                       weight, target,   tie,      most->deadline};
    sr_status st = sr_nnls_solve(x, &problem, most->iterations);
    sr_free(weight);
    return st;
}

/* Number of packs after rounding and clean-up; left[l] = sequences not covered by the rounding. */
static int64_t rounded_packs(int64_t *left, const partitions *q, const double *x,
                             const sr_histogram *h) {
    int64_t total = 0;
    memcpy(left, h->count, ((size_t)h->capacity + 1) * sizeof *left);
    for (int64_t j = 0; j < q->count; j++) {
        int64_t packs = (int64_t)nearbyint(x[j]);
        const uint16_t *row = q->row + j * q->width;
        for (int32_t k = 0; packs > 0 && k < q->width && row[k] > 0; k++) left[row[k]] -= packs;
        total += packs;
    }
    for (int32_t l = 1; l <= h->capacity; l++) total += left[l] > 0 ? left[l] : 0;
    return total;
}

/* With more patterns than lengths, least squares has many solutions, which round differently.  For
 * small problems, tries several; x becomes the one with the fewest packs. */
static sr_status mix_well(double **x, int64_t *left, const partitions *q, const sr_histogram *h,
                          const limits *most) {
    double *other;
    SR_TRY(sr_new(x, q->count));
    SR_TRY(sr_new(&other, q->count));
    sr_status st = mix(*x, q, h, most, 0);
    int64_t fewest = rounded_packs(left, q, *x, h);
    for (uint32_t tie = 1; tie < (q->width > 2 && q->count <= 4096 ? 16 : 1) && st == SR_OK;
         tie++) {
        st = mix(other, q, h, most, tie);
        int64_t packs = rounded_packs(left, q, other, h);
        if (packs >= fewest) continue;
        fewest = packs;
        memcpy(*x, other, (size_t)q->count * sizeof *other);
    }
    rounded_packs(left, q, *x, h);
    sr_free(other);
    return st;
}

static sr_status add_rounded(sr_builder *b, const partitions *q, const double *x) {
    sr_plan_part part[64];
    for (int64_t j = 0; j < q->count; j++) {
        int64_t packs = (int64_t)nearbyint(x[j]);
        const uint16_t *row = q->row + j * q->width;
        int32_t n = 0;
        for (; packs > 0 && n < q->width && row[n] > 0; n++) part[n] = (sr_plan_part){row[n], 1};
        SR_TRY(sr_build_add(b, packs, part, (size_t)n));
    }
    return SR_OK;
}

/* The published clean-up: a leftover sequence shares a pack with the length that would fill it,
 * whether or not such a sequence exists. */
static sr_status add_pairs(sr_builder *b, const int64_t *left, const sr_histogram *h, bool alone) {
    for (int32_t l = 1; l <= h->capacity; l++) {
        sr_plan_part pair[2] = {{(uint16_t)l, 1}, {(uint16_t)(h->capacity - l), 1}};
        if (left[l] > 0) SR_TRY(sr_build_add(b, left[l], pair, alone || l == h->capacity ? 1 : 2));
    }
    return SR_OK;
}

static sr_status pack(sr_builder *b, const sr_histogram *h, int32_t depth, const limits *most) {
    partitions q = {.width = depth};
    uint16_t part[64];
    double *x = NULL;
    int64_t *left = NULL;
    sr_status st;
    SR_GO(done, st, enumerate(&q, part, 0, 1, h->capacity));
    SR_GO(done, st, sr_new(&left, h->capacity + 1));
    SR_GO(done, st, mix_well(&x, left, &q, h, most));
    SR_GO(done, st, add_rounded(b, &q, x));
    st = add_pairs(b, left, h, depth == 1);
done:
    sr_free(left);
    sr_free(x);
    sr_free(q.row);
    return st;
}

sr_status sr_solve_nnlshp(sr_plan **out, const sr_histogram *h, const sr_pack_opts *opts) {
    int32_t depth = opts->max_seqs > 0 ? opts->max_seqs : PUBLISHED_DEPTH;
    if (depth > 64)
        return sr_fail(SR_EINVAL, "pack: nnlshp supports depths up to 64, not %d; use optimal",
                       depth);
    if (depth > 1 && h->capacity > MOST_LENGTH)
        return sr_fail(SR_EINVAL,
                       "pack: nnlshp supports packs of at most %d tokens, not %d, since its memory "
                       "grows with the square; use the solver optimal",
                       MOST_LENGTH, h->capacity);
    sr_builder b;
    SR_TRY(sr_build_begin(&b, h, depth, "nnlshp"));
    limits most = {opts->iterations, opts->seconds > 0 ? sr_time_monotonic() + opts->seconds : 0};
    sr_status st = pack(&b, h, depth, &most);
    if (st == SR_OK) return sr_build_end(out, &b);
    sr_build_drop(&b);
    return st;
}
