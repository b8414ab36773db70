/* deal.h - which sequences of an ordered update go into which batch of which share.
 *
 * Packs are dealt out to the batches by cost, because attention takes the sum of len^2: two batches
 * of equally many tokens can differ by a factor in time, and whoever runs them side by side would
 * wait for the longer one.  Shares are runs of batches, so that what a share holds depends on the
 * options and on lengths, never on who makes it.  For the inside of core/batch.
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
    int64_t *rows; /* (batches) the least T */
    int64_t sequences, batches, shares, packs;
    int32_t stride; /* rows of a sequence, 0: one after another */
    double imbalance;
} sr_deal;

/* Deals an order out; its sequences are at least one.  Errors: SR_EINVAL when a group needs more
 * packs than a batch has; those of sr_pack_solve(). */
sr_status sr_deal_order(sr_deal *out, const sr_order *order, const sr_loader_opts *opts);
void sr_deal_free(sr_deal *d); /* leaves an empty deal */

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
