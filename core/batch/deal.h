/* deal.h - assigns the sequences of an ordered update to batches and shares.
 *
 * Packs are assigned to batches by cost, because attention takes the sum of len^2: the times of two
 * batches with equally many tokens can differ by a factor, and ranks that run them in parallel
 * would wait for the slower one.  Shares are runs of batches, so that the content of a share
 * depends on options and lengths alone.  Internal to core/batch.
 */
#ifndef SR_BATCH_DEAL_H
#define SR_BATCH_DEAL_H

#include "core/batch/loader.h"
#include "core/batch/order.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Batch b has pick[b == 0 ? 0 : end[b - 1]] to pick[end[b] - 1]. */
typedef struct sr_deal {
    sr_pick *pick; /* (sequences) */
    int64_t *end;  /* (batches) */
    int64_t *rows; /* (batches) minimum of T */
    int64_t sequences, batches, shares, packs;
    int32_t stride; /* rows per sequence, 0: contiguous */
    double imbalance;
} sr_deal;

/* Assigns the sequences of an order, at least one.  Errors: SR_EINVAL if a group needs more packs
 * than a batch may have; those of sr_pack_solve(). */
sr_status sr_deal_order(sr_deal *out, const sr_order *order, const sr_loader_opts *opts);
void sr_deal_free(sr_deal *d); /* resets it to empty */

/* Assigns n packs by cost to shares, and those of each share to its batches, of which all have the
 * same number.  If some shares get a pack more than others, these are spread: any run of shares
 * costs about as much as another of as many.  imbalance: of the batches. */
sr_status sr_deal_shares(int32_t *batch, double *imbalance, const double *cost, int32_t n,
                         int32_t batches, int32_t shares, sr_balance how);

static inline int64_t sr_deal_first(const sr_deal *d, int64_t batch) {
    return batch == 0 ? 0 : d->end[batch - 1];
}

static inline int32_t sr_deal_share(const sr_deal *d, int64_t batch) {
    return (int32_t)(((batch + 1) * d->shares - 1) / d->batches);
}

#ifdef __cplusplus
}
#endif
#endif
