/* assign.h - assigns the sequences of an ordered update to batches and shares.
 *
 * Packs are assigned to batches by cost, because attention takes the sum of len^2: the times of two
 * batches with equally many tokens can differ by a factor, and ranks that run them in parallel
 * would wait for the slower one.  Shares are runs of batches, so that the content of a share
 * depends on options and lengths alone.  Internal to core/loader.
 */
#pragma once

#include "core/loader/loader.h"
#include "core/loader/order.h"

SR_BEGIN_C

/* Batch b has pick[b == 0 ? 0 : end[b - 1]] to pick[end[b] - 1]. */
typedef struct sr_assignment {
    sr_pick *pick; /* (sequences) */
    int64_t *end;  /* (batches) */
    int64_t *rows; /* (batches) minimum of T */
    int64_t sequences, batches, shares, packs;
    int32_t stride; /* rows per sequence, 0: contiguous */
    double imbalance;
} sr_assignment;

/* Assigns the sequences of an order, at least one.  Errors: SR_EINVAL if a group needs more packs
 * than a batch may have; those of sr_pack_solve(). */
sr_status sr_assign_order(sr_assignment *out, const sr_order *order, const sr_loader_opts *opts);
void sr_assignment_free(sr_assignment *a); /* resets it to empty */

static inline int64_t sr_assignment_first(const sr_assignment *a, int64_t batch) {
    return batch == 0 ? 0 : a->end[batch - 1];
}

static inline int32_t sr_assignment_share(const sr_assignment *a, int64_t batch) {
    return (int32_t)(((batch + 1) * a->shares - 1) / a->batches);
}

SR_END_C
