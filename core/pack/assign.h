/* assign.h - which rank and micro-batch runs which pack of a global batch.
 *
 * Packs hold nearly equal numbers of tokens, but attention costs the sum of len^2, which differs by
 * a factor of a hundred.  Dealing the packs of one update out by cost keeps ranks from waiting for
 * each other, and changes nothing else: which sequences share an update stays as it was.
 */
#ifndef SR_PACK_ASSIGN_H
#define SR_PACK_ASSIGN_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cost of a pack: per_token * tokens + per_square * sum of len^2. */
double sr_pack_cost(const uint16_t *lengths, int32_t n, double per_token, double per_square);

/* Deals n packs out to `groups` groups of equal size (they differ by one when n does not divide):
 * longest processing time first, then swaps while they lower the heaviest group, up to a number of
 * comparisons (thousands of packs are even enough without).
 *
 *   group      n numbers, 0 <= group[i] < groups
 *   imbalance  heaviest group over the mean; 1 is perfect.  May be NULL
 *
 * SR_EINVAL when groups < 1 or a cost is negative or not a number.  Deterministic; ties go to the
 * lower index. */
sr_status sr_assign_packs(int32_t *group, double *imbalance, const double *cost, int32_t n,
                          int32_t groups);

#ifdef __cplusplus
}
#endif
#endif
