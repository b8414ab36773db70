/* assign.h - assigns the packs of a global batch to ranks and micro-batches.
 *
 * Packs have nearly equal numbers of tokens, but attention costs the sum of len^2, which varies by
 * up to a factor of a hundred.  Assigning the packs of an update by cost keeps ranks from waiting
 * for each other; it does not change which sequences are in the update.
 */
#pragma once

#include <stdbool.h>

#include "core/pack/plan.h"

SR_BEGIN_C

/* Cost of a pack: per_token * tokens + per_square * sum of len^2. */
double sr_pack_cost(const uint16_t *lengths, int32_t n, double per_token, double per_square);

/* How packs are assigned to groups of equal size, give or take one. */
typedef enum sr_balance {
    SR_BALANCE_COST,  /* most expensive first, each to the cheapest group with room; then swaps that
                         lower the most expensive group, up to a number of comparisons (thousands of
                         packs are balanced enough without) */
    SR_BALANCE_RANDOM /* in the order given, the first packs to the first group */
} sr_balance;

/* Their names in the order of the enum, then NULL. */
extern const char *const sr_balance_names[];

/* The group of the i-th pack for SR_BALANCE_RANDOM. */
static inline int64_t sr_balance_random(int64_t i, int64_t n, int64_t groups) {
    return i * groups / n;
}

/* Assigns n packs to `groups` groups.
 *
 *   group      n indices, 0 <= group[i] < groups
 *   imbalance  most expensive group over the mean; 1 is perfect.  May be NULL
 *
 * SR_EINVAL if groups < 1 or a cost is negative or NaN.  Deterministic; ties go to the lower
 * index. */
sr_status sr_assign_packs(int32_t *group, double *imbalance, const double *cost, int32_t n,
                          int32_t groups, sr_balance how);

/* Assigns n packs by cost to shares, and the packs of each share to its batches; all shares have
 * the same number of batches.  Shares that get one pack more than others are spread evenly, so that
 * the runs of shares of different ranks cost about the same.
 *
 *   batch      n indices of batches, share by share
 *   imbalance  most expensive batch over the mean */
sr_status sr_assign_shares(int32_t *batch, double *imbalance, const double *cost, int32_t n,
                           int32_t batches, int32_t shares, sr_balance how);

SR_END_C
