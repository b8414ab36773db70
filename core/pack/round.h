/* round.h - rounds a fractional solution to whole packs.
 *
 * Internal to core/pack.  The integer parts of a linear solution pack nearly everything.  The rest
 * is packed by diving: solve the linear program of the rest, fix the patterns that are nearly
 * integral, repeat.  Before every dive the rest is also packed greedily, so there is always a
 * complete packing; the best one wins.
 */
#pragma once

#include "core/pack/lp.h"

SR_BEGIN_C

typedef struct sr_rounding {
    int32_t capacity, max_seqs;
    int64_t *left;  /* by length: sequences not yet packed */
    int32_t *below; /* by length: hint for the longest remaining length <= it */
    int64_t sequences_left, packs;
    sr_pattern_list taken; /* whole packs so far */
    sr_pattern_list best;  /* the best complete packing */
    int64_t best_packs, target;
    int64_t pivots; /* spent on dives so far */
} sr_rounding;

/* `target` is a lower bound: reaching it ends the search. */
sr_status sr_rounding_new(sr_rounding *r, const sr_histogram *h, int32_t max_seqs, int64_t target);
void sr_rounding_free(sr_rounding *r);

/* Takes the integer parts of a linear solution. */
sr_status sr_rounding_floor(sr_rounding *r, const sr_lp *lp);

/* Dives from the fractions of `lp`, whose integer parts have been taken.  Rounds patterns up from
 * the fraction `least`.  r->best never gets worse. */
sr_status sr_rounding_dive(sr_rounding *r, const sr_lp *lp, double least,
                           const sr_lp_limits *limits);

/* Undoes all packs taken beyond the first `count` patterns of r->taken; their sequences are
 * unpacked again. */
void sr_rounding_back(sr_rounding *r, size_t count);

SR_END_C
