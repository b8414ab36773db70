/* grid.h - the linear program of packing on a grid of lengths: a bound, and patterns to imitate.
 *
 * Internal to core/pack.  The pack is divided into `cells` equal cells; nodes are the multiples of
 * a cell, from 0.  A length between two nodes counts as a share of both, such that number and
 * tokens stay the same.  The program of the nodes is small whatever the capacity is.
 *
 * Its prices, interpolated between the nodes, prove a bound for the real lengths.  No pattern of
 * real lengths is worth more than the best of nodes: for given neighbours of its lengths, its worth
 * is a linear function, so it is largest with all lengths but one on nodes and the pack full, or
 * with all on nodes; if all but one of the lengths of a full pack are multiples of a cell, so is
 * the last.
 */
#pragma once

#include "core/pack/lp.h"
#include "core/pack/pack.h"

SR_BEGIN_C

/* Sequences that cannot share a pack even with the shortest one are packs of their own; the grid
 * has the rest. */
typedef struct sr_grid {
    int32_t cells, capacity, max_seqs;
    int64_t alone;
    int32_t longest;  /* of the rest */
    int64_t *counts;  /* by node: sequences times capacity */
    int64_t *weight;  /* by node: integer prices */
    int64_t heaviest; /* the largest weight of a pattern of nodes */
    int64_t bound;    /* alone + ceil(sum(counts * weight) / (capacity * heaviest)) */
    sr_lp lp;         /* packs are those of the rest times capacity */
} sr_grid;

/* True if a grid is better than the program of the lengths themselves: for many different lengths
 * and a limit of 2 to DEEPEST sequences a pack. */
bool sr_grid_suits(const sr_histogram *h, int32_t max_seqs);

/* The cells of the grids to try, in turn; 0 after the last. */
int32_t sr_grid_cells(int i, int32_t capacity);

/* Solves for counts[1..capacity], starting from the patterns of `start` (of nodes; may be NULL).
 * 1 <= max_seqs <= cells. */
sr_status sr_grid_solve(sr_grid *out, const int64_t *counts, int32_t capacity, int32_t max_seqs,
                        int32_t cells, const sr_pattern_list *start, const sr_lp_limits *limits);
void sr_grid_free(sr_grid *g);

/* The prices of the real lengths 1..capacity. */
void sr_grid_value(double *value, const sr_grid *g);

/* Work of the first solve of a histogram: 10 ms to a second. */
sr_lp_limits sr_grid_limits(const sr_pack_opts *opts, int32_t cells);

SR_END_C
