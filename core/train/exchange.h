/* exchange.h - the gradient of an update that several ranks computed the shares of.
 *
 * Ranks own whole shares, neighbours (core/batch/part.h), and hold the sums of their subtrees when
 * the last one has ended (shares.h).  The store is cut into a piece a rank, on the optimizer's
 * chunks.  Every rank sends its sums' part of a piece to the owner of that piece, who adds them in
 * the order of the tree: so the sum has the bits that one rank would have computed, whatever the
 * number of ranks, and each adds and receives as much as the others.
 *
 *     sr_shares_begin(shares, total); ... own shares ...; sr_shares_end(shares, i)
 *     sr_exchange_reduce(x, total)    params->grad of the own piece is the sum of the update
 *     sr_exchange_gather(x)           and of all others, unless only owners need them
 *
 * The sums that a rank holds are few, most often one or two, so about one gradient leaves each
 * rank.
 */
#ifndef SR_TRAIN_EXCHANGE_H
#define SR_TRAIN_EXCHANGE_H

#include "core/tensor/comm.h"
#include "core/train/optim.h"
#include "core/train/shares.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_exchange sr_exchange;

/* `shares` and `comm` are borrowed: they outlive this. */
sr_status sr_exchange_new(sr_exchange **out, sr_shares *shares, sr_comm *comm);
void sr_exchange_free(sr_exchange *x); /* may be NULL */

/* The piece of the store whose sum `rank` computes: sr_optim_cut(). */
sr_range sr_exchange_piece(const sr_exchange *x, int rank);

/* Ends an update of `total` shares, all of which have ended on their ranks: params->grad of the own
 * piece is its gradient; the rest of params->grad is undefined.
 *
 * Errors: SR_EINVAL  a share of this rank has not ended, or params->grad was written after it
 *         SR_ENOMEM  before anything was sent
 *         those of the engine */
sr_status sr_exchange_reduce(sr_exchange *x, int64_t total);

/* After a reduce: params->grad is the gradient of the update on all ranks. */
sr_status sr_exchange_gather(sr_exchange *x);

/* Both with a reduction of the engine's library: faster on some networks, but the bits depend on
 * the number of ranks. */
sr_status sr_exchange_library(sr_exchange *x);

#ifdef __cplusplus
}
#endif
#endif
