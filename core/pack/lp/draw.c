#include "core/pack/lp/draw.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/pack/lp/fast.h"

enum { PASSES = 40 };

/* ---- weights ---- */

static double *ways(const sr_draw *d, int32_t n) {
    return d->ways + (size_t)n * ((size_t)d->capacity + 1);
}

SR_FAST static void add_times(double *restrict out, const double *restrict in, double by,
                              int32_t n) {
    for (int32_t i = 0; i < n; i++) out[i] += in[i] * by;
}

/* ways(n)[0] stays 1, the empty list. */
static void count_ways(sr_draw *d) {
    const int32_t L = d->capacity;
    for (int32_t n = 1; n < d->depth; n++) {
        double *f = ways(d, n);
        memset(f + 1, 0, (size_t)L * sizeof *f);
        for (int32_t r = 0; r < d->rows; r++)
            add_times(f + d->length[r], ways(d, n - 1), d->weight[r], L + 1 - d->length[r]);
    }
}

/* The frequency at which a row is drawn, in a unit common to all rows. */
static double often(const sr_draw *d, int32_t row) {
    return d->weight[row] * ways(d, d->depth - 1)[d->capacity - d->length[row]];
}

/* One pass of scaling, damped because the items of a pattern are scaled together.  Uses square
 * roots, which are exact, instead of pow(), so that weights are the same on every machine. */
static void scale(sr_draw *d) {
    double tokens = 0, wanted = 0;
    for (int32_t r = 0; r < d->rows; r++) {
        tokens += often(d, r) * d->length[r];
        wanted += d->demand[r] * d->length[r];
    }
    for (int32_t r = 0; r < d->rows; r++) {
        double now = often(d, r) / tokens, by = 1;
        if (now > 0) by = fmin(16, fmax(1.0 / 16, d->demand[r] / wanted / now));
        for (int32_t step = 1; step < d->depth; step *= 2) by = sqrt(by);
        d->weight[r] *= by;
    }
}

/* Packs with twice the average number of sequences or more are rare. */
static int32_t deepest(int32_t max_seqs, double average) {
    int32_t most = (int32_t)ceil(2 * average);
    return max_seqs > 0 && max_seqs < most ? max_seqs : most;
}

double sr_draw_work(int32_t rows, int32_t capacity, int32_t max_seqs, double average) {
    return 0.5 * PASSES * deepest(max_seqs, average) * rows * capacity;
}

static void find_weights(sr_draw *d) {
    for (int32_t n = 0; n < d->depth; n++) ways(d, n)[0] = 1;
    double sequences = 0;
    for (int32_t r = 0; r < d->rows; r++) sequences += d->demand[r];
    for (int32_t r = 0; r < d->rows; r++) d->weight[r] = d->demand[r] / sequences;
    count_ways(d);
    for (int32_t i = 0; i < PASSES; i++) {
        scale(d);
        count_ways(d);
    }
}

sr_status sr_draw_new(sr_draw *d, const int32_t *length, const double *demand, int32_t rows,
                      int32_t capacity, int32_t max_seqs, double average) {
    *d = (sr_draw){.capacity = capacity, .rows = rows, .length = length, .demand = demand};
    d->depth = deepest(max_seqs, average);
    sr_status st;
    SR_GO(fail, st, sr_new(&d->weight, rows));
    SR_GO(fail, st, sr_new(&d->ways, (size_t)d->depth * ((size_t)capacity + 1)));
    find_weights(d);
    return SR_OK;
fail:
    sr_draw_free(d);
    return st;
}

void sr_draw_free(sr_draw *d) {
    sr_free(d->weight);
    sr_free(d->ways);
    memset(d, 0, sizeof *d);
}

/* ---- drawing ---- */

/* The first of at most n items that together fill `space`; -1 if there are none. */
static int32_t draw_item(const sr_draw *d, int32_t n, int32_t space, double luck) {
    if (n < 1) return -1;
    const double *rest = ways(d, n - 1);
    double left = ways(d, n)[space] * luck;
    int32_t row = -1;
    for (int32_t r = d->rows - 1; r >= 0 && d->length[r] <= space && left >= 0; r--) {
        double v = d->weight[r] * rest[space - d->length[r]];
        if (v > 0) row = r, left -= v;
    }
    return row;
}

void sr_draw_pattern(const sr_draw *d, int32_t row, uint32_t turn, int32_t *items, int32_t *n) {
    int32_t space = d->capacity - d->length[row];
    items[0] = row, *n = 1;
    while (space > 0) {
        sr_u32x4 place = {{(uint32_t)row, turn, (uint32_t)*n, 0}};
        double luck = sr_philox(place, 0, SR_ROUNDS_DATA).w[0] * 0x1p-32;
        int32_t item = draw_item(d, d->depth - *n, space, luck);
        if (item < 0) {
            *n = 0;
            return;
        }
        items[(*n)++] = item;
        space -= d->length[item];
    }
}
