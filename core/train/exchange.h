/* exchange.h - the gradient of an update that several ranks computed the shares of.
 *
 * Ranks own whole shares, neighbours (core/loader/update.h), and hold the sums of their subtrees
 * when the last one has ended (shares.h).  The store is cut into a piece a rank, on the optimizer's
 * chunks.  Every rank sends its sums' part of a piece to the owner of that piece, who adds them in
 * the order of the tree: so the sum has the bits that one rank would have computed, whatever the
 * number of ranks, and each adds and receives as much as the others.
 *
 * The store is sent in buckets of neighbouring parameters, from its end, where backward passes
 * begin. In the last micro-batch of a rank a bucket starts as soon as its gradient is complete
 * (ready.h), while the pass goes on with the layers before: the sums that wait join it then, in the
 * order of the tree.  All ranks start buckets in the same order.
 *
 *     sr_shares_begin(shares, total)
 *     sr_exchange_batch(x, total, last)    before each micro-batch; last: the share that ends with
 * it sr_shares_end(shares, i)             after each share but the last of this rank
 *     sr_exchange_rest(x, total, last)     after the last one: what has not been sent yet
 *     sr_exchange_reduce(x, total)         params->grad of the own piece is the sum of the update
 *     sr_exchange_gather(x)                and of all others, unless only owners need them
 *
 * The second and the fourth may be left out: sr_exchange_reduce() then sends all.
 *
 * The sums that a rank holds are few, most often one or two, so about one gradient leaves each
 * rank.
 */
#ifndef SR_TRAIN_EXCHANGE_H
#define SR_TRAIN_EXCHANGE_H

#include "core/tensor/comm.h"
#include "core/train/optim.h"
#include "core/train/shares.h"
#include "core/train/all_gather.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_exchange sr_exchange;

typedef struct sr_exchange_opts {
    bool library; /* sum by the reduction of the engine's library: faster on some networks, but the
                     bits depend on the number of ranks */
    bool sharded; /* library: only owners need their pieces */
    bool overlap; /* start buckets during the backward pass */
    int64_t bucket; /* elements, at least; parameters are not cut */
} sr_exchange_opts;

/* `shares` and `comm` are borrowed: they outlive this. */
sr_status sr_exchange_new(sr_exchange **out, sr_shares *shares, sr_comm *comm,
                          const sr_exchange_opts *opts);
void sr_exchange_free(sr_exchange *x); /* may be NULL */

/* The piece of the store whose sum `rank` computes: sr_optim_cut(). */
sr_range sr_exchange_piece(const sr_exchange *x, int rank);

/* A micro-batch begins.  last: the last share of this rank, which ends with it; else -1.  Until
 * sr_exchange_rest() the calls of comm.h are refused if buckets may start.
 *
 * Errors: SR_EINVAL  a share of this rank has not ended
 *         SR_ENOMEM */
sr_status sr_exchange_batch(sr_exchange *x, int64_t total, int64_t last);

/* The micro-batches of this rank have ended: starts the buckets that are left.
 *
 *   last   the last share of this rank, which is in params->grad; -1 if it has none
 *
 * Errors: SR_EINVAL  a share has not ended, or gradients were changed after they were sent
 *         SR_ENOMEM  and those of the engine, also of buckets started before */
sr_status sr_exchange_rest(sr_exchange *x, int64_t total, int64_t last);

/* Ends an update of `total` shares, all of which have ended on their ranks: params->grad of the own
 * piece is its gradient; the rest of params->grad is undefined.
 *
 * Errors: SR_EINVAL  a share of this rank has not ended, or params->grad was written after it
 *         SR_ENOMEM
 *         those of the engine */
sr_status sr_exchange_reduce(sr_exchange *x, int64_t total);

/* After a reduce: params->grad is the gradient of the update on all ranks. */
sr_status sr_exchange_gather(sr_exchange *x);

#ifdef __cplusplus
}
#endif
#endif
