#include "core/pack/grid.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/system.h"
#include "core/pack/lp/knapsack.h"

static const double SCALE = 1e9; /* of weights: every pattern is below 2^53 */
static const int64_t MOST_SEQUENCES = (int64_t)1 << 46;
enum {
    EXACT_LENGTHS = 1024,   /* up to which the program of the lengths themselves is solved, */
    SHALLOW_LENGTHS = 2048, /* and that for at most SHALLOW sequences per pack */
    SHALLOW = 3,
    DEEPEST = 128
};

bool sr_grid_suits(const sr_histogram *h, int32_t max_seqs) {
    int32_t lengths = 0;
    for (int32_t l = 1; l <= h->capacity; l++) lengths += h->count[l] > 0;
    int32_t exact = max_seqs <= SHALLOW ? SHALLOW_LENGTHS : EXACT_LENGTHS;
    return max_seqs > 1 && max_seqs <= DEEPEST && lengths > exact && h->sequences <= MOST_SEQUENCES;
}

int32_t sr_grid_cells(int i, int32_t capacity) {
    static const int32_t cells[] = {256, 512, 1024, 2048};
    if (i == sizeof cells / sizeof *cells) return 0;
    return cells[i] < capacity ? cells[i] : capacity;
}

sr_lp_limits sr_grid_limits(const sr_pack_opts *opts, int32_t cells) {
    sr_lp_limits limits = {.pivots = 15000000 / cells, .gap = 1e-5};
    if (opts->iterations > 0) limits.pivots = opts->iterations;
    if (opts->seconds > 0) limits.deadline = sr_time_monotonic() + opts->seconds;
    return limits;
}

void sr_grid_free(sr_grid *g) {
    sr_free(g->counts);
    sr_free(g->weight);
    sr_lp_free(&g->lp);
    memset(g, 0, sizeof *g);
}

/* Length l is (l * cells / capacity) cells: splits its count between the two nodes around it. */
static void split_counts(sr_grid *g, const int64_t *counts) {
    int32_t shortest = 1;
    while (shortest < g->capacity && counts[shortest] == 0) shortest++;
    g->longest = g->capacity - shortest;
    for (int32_t l = g->longest + 1; l <= g->capacity; l++) g->alone += counts[l];
    for (int32_t l = 1; l <= g->longest; l++) {
        int64_t node = (int64_t)l * g->cells / g->capacity;
        int64_t above = (int64_t)l * g->cells % g->capacity;
        g->counts[node] += counts[l] * (g->capacity - above);
        if (above > 0) g->counts[node + 1] += counts[l] * above;
    }
}

static sr_status prove(sr_grid *g) {
    SR_TRY(sr_new(&g->weight, g->cells + 1));
    for (int32_t i = 0; i <= g->cells; i++)
        g->weight[i] = (int64_t)floor(g->lp.value[i] * SCALE + 0.5);
    /* of all nodes, since a node without sequences can be near some */
    SR_TRY(sr_knapsack_heaviest(&g->heaviest, g->cells, g->max_seqs, g->weight, NULL));
    __int128 total = 0, pack = (__int128)g->heaviest * g->capacity;
    for (int32_t i = 0; i <= g->cells; i++) total += (__int128)g->counts[i] * g->weight[i];
    g->bound = g->alone + (pack > 0 ? (int64_t)((total + pack - 1) / pack) : 0);
    return SR_OK;
}

void sr_grid_value(double *value, const sr_grid *g) {
    value[0] = 0;
    for (int32_t l = 1; l <= g->longest; l++) {
        int64_t node = (int64_t)l * g->cells / g->capacity;
        double share = (double)((int64_t)l * g->cells % g->capacity) / g->capacity;
        value[l] = (1 - share) * g->lp.value[node];
        if (share > 0) value[l] += share * g->lp.value[node + 1];
    }
    for (int32_t l = g->longest + 1; l <= g->capacity; l++) value[l] = 1;
}

sr_status sr_grid_solve(sr_grid *out, const int64_t *counts, int32_t capacity, int32_t max_seqs,
                        int32_t cells, const sr_pattern_list *start, const sr_lp_limits *limits) {
    *out = (sr_grid){.cells = cells, .capacity = capacity, .max_seqs = max_seqs};
    sr_status st;
    SR_GO(fail, st, sr_new(&out->counts, cells + 2));
    split_counts(out, counts);
    SR_GO(fail, st, sr_lp_solve(&out->lp, out->counts, cells, max_seqs, start, limits));
    SR_GO(fail, st, prove(out));
    return SR_OK;
fail:
    sr_grid_free(out);
    return st;
}
