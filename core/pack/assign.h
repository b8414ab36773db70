/* assign.h - assigns the packs of a global batch to ranks and micro-batches.
 *
 * Packs have nearly equal numbers of tokens, but attention costs the sum of len^2, which varies by
 * up to a factor of a hundred.  Assigning the packs of an update by cost keeps ranks from waiting
 * for each other; it does not change which sequences are in the update.
 */
#ifndef SR_PACK_ASSIGN_H
#define SR_PACK_ASSIGN_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cost of a pack: per_token * tokens + per_square * sum of len^2. */
double sr_pack_cost(const uint16_t *lengths, int32_t n, double per_token, double per_square);

/* Assigns n packs to `groups` groups of equal size (give or take one if n is not a multiple):
 * longest processing time first, then swaps that lower the most expensive group, up to a number of
 * comparisons (thousands of packs are balanced enough without).
 *
 *   group      n indices, 0 <= group[i] < groups
 *   imbalance  most expensive group over the mean; 1 is perfect.  May be NULL
 *
 * SR_EINVAL if groups < 1 or a cost is negative or NaN.  Deterministic; ties go to the lower
 * index. */
sr_status sr_assign_packs(int32_t *group, double *imbalance, const double *cost, int32_t n,
                          int32_t groups);

#ifdef __cplusplus
}
#endif
#endif
