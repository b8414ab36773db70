/* lp.h - solves the linear program of packing by column generation: a bound, and a fractional
 * solution to round.
 *
 * Internal to core/pack.  The master (master.h) has some patterns; the knapsack finds improving
 * ones, at prices half way between the master's and the best so far (Wentges 1997, Pessoa et al.
 * 2018), until there are none.  Any prices y >= 0 prove a bound: no pack is worth more than the
 * best pattern v, so at least sum(y * count) / v packs are needed (Farley 1990).
 */
#pragma once

#include "core/pack/lp/basis.h"
#include "core/pack/plan.h"

SR_BEGIN_C

/* Patterns by length: entry.at is a length, entry.value its copies. */
typedef struct sr_pattern_list {
    sr_vectors parts;
    double *weight; /* packs of each: fractional in a linear solution, integers in a packing */
    size_t room;
} sr_pattern_list;

sr_status sr_pattern_list_new(sr_pattern_list *list);
void sr_pattern_list_free(sr_pattern_list *list);
/* Completes the pattern pushed on list->parts (after sr_vectors_reserve). */
sr_status sr_pattern_list_close(sr_pattern_list *list, double weight);
/* Appends the patterns of a plan, with their counts. */
sr_status sr_pattern_list_add(sr_pattern_list *list, const sr_plan *plan);
void sr_pattern_list_cut(sr_pattern_list *list, size_t count);

/* Limits of the work; 0 means no limit.  Iterations are deterministic, seconds are not. */
typedef struct sr_lp_limits {
    int64_t pivots;
    double gap;      /* sufficient relative gap; eleven times that when all pivots are used */
    double deadline; /* sr_time_monotonic() */
    int64_t known;   /* a known lower bound */
    int32_t drawn; /* patterns to draw for each length (draw.h), in addition to `start`; 0: none */
} sr_lp_limits;

/* Below this number of lengths, pricing alone is as fast. */
static inline int32_t sr_lp_drawn(int64_t lengths) {
    return lengths > 512 ? 2 : 0;
}

typedef struct sr_lp {
    double packs;             /* of the fractional solution */
    double bound;             /* Farley's bound in floating point, to guide the search only */
    double *value;            /* by length 0..capacity: prices that prove it */
    sr_pattern_list solution; /* patterns in the basis, of weight >= 0 */
    int64_t pivots;
    bool finished; /* no improving pattern */
} sr_lp;

/* Packs counts[1..capacity] fractionally, starting from the patterns `start`, of any lengths (a
 * slot is used for the longest length in demand that fits). */
sr_status sr_lp_solve(sr_lp *out, const int64_t *counts, int32_t capacity, int32_t max_seqs,
                      const sr_pattern_list *start, const sr_lp_limits *limits);
void sr_lp_free(sr_lp *lp);

SR_END_C
