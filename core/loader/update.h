/* update.h - the batches between two steps of the optimizer.
 *
 * The weights of an update's targets carry the denominators of the whole update, so that the loss
 * is the plain sum over its batches, however they were made:
 *
 *     token      every item 1 / M           M items of this target in the update (masked tokens)
 *     sequence   every item 1 / (N m_s)     N sequences that have items, m_s items in this one
 */
#pragma once

#include "core/batch/batch.h"
#include "core/loader/cursor.h"

SR_BEGIN_C

/* Counts are of the whole update, even if only some of its shares are made here. */
typedef struct sr_update {
    sr_batch **batch;           /* (batches) of the shares made here */
    sr_target_count *elsewhere; /* (targets) of the other shares; NULL if there are none */
    int64_t batches;
    int64_t index; /* from 0 */
    int64_t packs, sequences, tokens, slots, masked, words;
    int32_t shares;   /* batches come share by share; see sr_batch.share */
    double imbalance; /* cost of the most expensive batch over the mean; see
                         sr_loader_opts.per_square */
    sr_cursor begin, end;
} sr_update;

/* The first share that rank `rank`, from 0, of `ranks` makes; its last is before the first of the
 * next.  Each rank has a run of neighbours, as many as the others or one more, so that most of
 * their sums meet on one rank (core/train/shares.h).  Rank 0, which writes the logs, always has
 * one. */
static inline int64_t sr_first_share(int64_t shares, int rank, int ranks) {
    return (shares * rank + ranks - 1) / ranks;
}

/* Adds a batch to an update, which owns it from then on; frees the batch on failure. */
sr_status sr_update_add(sr_update *u, sr_batch *b);

/* Sets the weights of all targets except deferred ones from the totals of the update. */
void sr_update_weigh(sr_update *u);

/* To be called after deferred targets are set: their weights, and the rows that targets need. */
sr_status sr_update_finish(sr_update *u);
void sr_update_free(sr_update *u); /* may be NULL */

SR_END_C
