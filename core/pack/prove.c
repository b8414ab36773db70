#include "core/pack/prove.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/bounds.h"
#include "core/pack/grid.h"
#include "core/pack/lp.h"
#include "core/pack/solvers.h"

/* Keeps the certificate with the higher bound. */
static void keep_better(sr_certificate *best, sr_certificate *c) {
    if (best->weight == NULL || c->bound > best->bound) {
        sr_certificate swap = *best;
        *best = *c;
        *c = swap;
    }
    sr_certificate_free(c);
}

static sr_status try_weights(sr_certificate *best, const int64_t *weight, const sr_histogram *h,
                             int32_t max_seqs) {
    sr_certificate c;
    SR_TRY(sr_certificate_of(&c, weight, h, max_seqs));
    keep_better(best, &c);
    return SR_OK;
}

static sr_status simple_proofs(sr_certificate *best, const sr_histogram *h, int32_t max_seqs) {
    int64_t *weight;
    const int32_t L = h->capacity, cut = sr_bound_cut(h->count, L);
    SR_TRY(sr_new(&weight, L + 1));
    for (int32_t l = 1; l <= L; l++) weight[l] = sr_bound_weight(l, L, cut);
    sr_status st = try_weights(best, weight, h, max_seqs);
    for (int32_t l = 1; l <= L; l++) weight[l] = 1;
    if (st == SR_OK) st = try_weights(best, weight, h, max_seqs);
    for (int32_t l = 1; l <= L; l++) weight[l] = l > L / 2;
    if (st == SR_OK) st = try_weights(best, weight, h, max_seqs);
    sr_free(weight);
    return st;
}

/* The shares of sr_bound_count(). */
static sr_status count_proof(sr_certificate *best, const sr_histogram *h, int32_t max_seqs) {
    sr_certificate c;
    double *value;
    const int32_t L = h->capacity, shortest = sr_bound_shortest(h);
    SR_TRY(sr_new(&value, L + 1));
    for (int32_t l = 1; l <= L; l++) value[l] = 1.0 / sr_bound_mates(l, L, shortest, max_seqs);
    sr_status st = sr_certificate_make(&c, value, h, max_seqs);
    if (st == SR_OK) keep_better(best, &c);
    sr_free(value);
    return st;
}

static sr_status linear_proof(sr_certificate *best, const sr_histogram *h,
                              const sr_pack_opts *opts) {
    sr_plan *greedy = NULL;
    sr_pattern_list start = {0};
    sr_lp lp = {0};
    sr_certificate c;
    int64_t rows = 0;
    for (int32_t l = 1; l <= h->capacity; l++) rows += h->count[l] > 0;
    int64_t most = opts->iterations > 0 ? opts->iterations : 400000000 / (rows + 256);
    sr_lp_limits limits = {.pivots = most, .drawn = sr_lp_drawn(rows)};
    if (opts->seconds > 0) limits.deadline = sr_time_monotonic() + opts->seconds;
    sr_status st;
    SR_GO(done, st, sr_solve_lpfhp(&greedy, h, opts));
    SR_GO(done, st, sr_pattern_list_new(&start));
    SR_GO(done, st, sr_pattern_list_add(&start, greedy));
    SR_GO(done, st, sr_lp_solve(&lp, h->count, h->capacity, opts->max_seqs, &start, &limits));
    SR_GO(done, st, sr_certificate_make(&c, lp.value, h, opts->max_seqs));
    keep_better(best, &c);
done:
    sr_lp_free(&lp);
    sr_pattern_list_free(&start);
    sr_plan_free(greedy);
    return st;
}

/* The prices of the best grid. */
static sr_status grid_prices(double *value, const sr_histogram *h, const sr_pack_opts *opts) {
    int64_t best = 0;
    for (int i = 0; sr_grid_cells(i, h->capacity) > 0; i++) {
        sr_grid g;
        int32_t cells = sr_grid_cells(i, h->capacity);
        sr_lp_limits limits = sr_grid_limits(opts, cells);
        SR_TRY(sr_grid_solve(&g, h->count, h->capacity, opts->max_seqs, cells, NULL, &limits));
        if (g.bound > best) {
            best = g.bound;
            sr_grid_value(value, &g);
        }
        sr_grid_free(&g);
    }
    return SR_OK;
}

static sr_status grid_proof(sr_certificate *best, const sr_histogram *h, const sr_pack_opts *opts) {
    sr_certificate c;
    double *value;
    SR_TRY(sr_new(&value, h->capacity + 1));
    sr_status st = grid_prices(value, h, opts);
    if (st == SR_OK) st = sr_certificate_make(&c, value, h, opts->max_seqs);
    if (st == SR_OK) keep_better(best, &c);
    sr_free(value);
    return st;
}

sr_status sr_pack_prove(sr_certificate *out, const sr_histogram *h, const sr_pack_opts *opts) {
    memset(out, 0, sizeof *out);
    sr_status st = simple_proofs(out, h, opts->max_seqs);
    if (st == SR_OK && opts->max_seqs > 0) st = count_proof(out, h, opts->max_seqs);
    bool grid = sr_grid_suits(h, opts->max_seqs);
    if (st == SR_OK && grid) st = grid_proof(out, h, opts);
    if (st == SR_OK && !grid && h->sequences > 0) st = linear_proof(out, h, opts);
    if (st != SR_OK) sr_certificate_free(out);
    return st;
}
