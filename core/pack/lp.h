/* lp.h - the linear program of packing by column generation: a bound, and where to round from.
 *
 * For the inside of core/pack.  The master (master.h) knows some patterns; the knapsack finds ones
 * that improve it, at prices half way between the master's and the best so far (Wentges 1997,
 * Pessoa et al. 2018), until none does.  Any prices y >= 0 prove a bound: no pack can be worth more
 * than the best pattern v, so at least sum(y * count) / v packs are needed (Farley 1990).
 */
#ifndef SR_PACK_LP_H
#define SR_PACK_LP_H

#include "core/pack/basis.h"
#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Patterns by length: entry.at is a length, entry.value its copies. */
typedef struct sr_pattern_list {
    sr_vectors parts;
    double *weight; /* packs of each: fractions in a linear solution, whole numbers in a packing */
    size_t room;
} sr_pattern_list;

sr_status sr_pattern_list_new(sr_pattern_list *list);
void sr_pattern_list_free(sr_pattern_list *list);
/* Ends the pattern pushed on list->parts (after sr_vectors_reserve). */
sr_status sr_pattern_list_close(sr_pattern_list *list, double weight);
/* Appends the patterns of a plan, with their counts. */
sr_status sr_pattern_list_add(sr_pattern_list *list, const sr_plan *plan);
void sr_pattern_list_cut(sr_pattern_list *list, size_t count);

/* What bounds the work; zeros mean no limit.  Iterations are deterministic, seconds are not. */
typedef struct sr_lp_limits {
    int64_t pivots;
    double gap;      /* relative, good enough; eleven times that when all pivots are spent */
    double deadline; /* sr_time_monotonic() */
    int64_t known;   /* a lower bound known already */
    int32_t drawn;   /* 0: none; patterns to draw for each length (draw.h), beside `start` */
} sr_lp_limits;

/* What pays: with fewer lengths pricing alone is as fast. */
static inline int32_t sr_lp_drawn(int64_t lengths) {
    return lengths > 512 ? 2 : 0;
}

typedef struct sr_lp {
    double packs;             /* of the fractional solution */
    double bound;             /* Farley's, in floating point: to steer by, not to print */
    double *value;            /* by length 0..capacity: the prices that prove it */
    sr_pattern_list solution; /* patterns in the basis, weight 0 and up */
    int64_t pivots;
    bool finished; /* no pattern improves */
} sr_lp;

/* Packs counts[1..capacity] fractionally; `start` are patterns to begin with, of any lengths (a
 * slot serves the longest length in demand that is not longer than it). */
sr_status sr_lp_solve(sr_lp *out, const int64_t *counts, int32_t capacity, int32_t max_seqs,
                      const sr_pattern_list *start, const sr_lp_limits *limits);
void sr_lp_free(sr_lp *lp);

#ifdef __cplusplus
}
#endif
#endif
