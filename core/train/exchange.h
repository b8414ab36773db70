/* exchange.h - sums the gradient of an update over ranks, each of which has computed some of its
 * shares.
 *
 * A rank computes neighbouring shares (core/loader/update.h) and holds the sums of their subtrees
 * (shares.h).  The store is divided into one part per rank, on the optimizer's chunks.  Every rank
 * sends the sums it holds of a part to the owner of that part, which adds them in the order of the
 * tree: the result is bit-identical on any number of ranks, and the work is equal on all ranks.
 *
 * The store is sent in buckets of neighbouring parameters, from its end, where backward passes
 * begin.  In the last micro-batch of a rank a bucket is sent as soon as its gradient is complete
 * (ready.h), while the backward pass continues.  All ranks send buckets in the same order.
 *
 *     sr_shares_begin(shares, total)
 *     sr_exchange_batch(x, total, last)   before each micro-batch; last: the share it completes
 *     sr_shares_end(shares, i)            after each share but the last of this rank
 *     sr_exchange_rest(x, total, last)    after the last share: sends the remaining buckets
 *     sr_exchange_reduce(x, total)        this rank's part of params->grad is the sum of the update
 *     sr_exchange_gather(x)               all of params->grad is that sum, on every rank
 *
 * sr_exchange_batch() and sr_exchange_rest() may be left out: sr_exchange_reduce() then sends all.
 * sr_exchange_gather() is not needed where only owners read their part.
 */
#pragma once

#include "core/tensor/comm.h"
#include "core/train/optim.h"
#include "core/train/shares.h"
#include "core/train/all_gather.h"

SR_BEGIN_C

typedef struct sr_exchange sr_exchange;

typedef struct sr_exchange_opts {
    bool library; /* sum by the communication library: faster on some networks, but the bits depend
                     on the number of ranks */
    bool sharded; /* library: each rank receives only its own part */
    bool overlap; /* start buckets during the backward pass */
    int64_t bucket; /* minimum elements of a bucket; parameters are not split */
} sr_exchange_opts;

/* `shares` and `comm` are borrowed: they outlive this. */
sr_status sr_exchange_new(sr_exchange **out, sr_shares *shares, sr_comm *comm,
                          const sr_exchange_opts *opts);
void sr_exchange_free(sr_exchange *x); /* may be NULL */

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

/* Ends an update of `total` shares, all of which have ended on their ranks: this rank's part of
 * params->grad is its gradient; the rest of params->grad is undefined.
 *
 * Errors: SR_EINVAL  a share of this rank has not ended, or params->grad was written after it
 *         SR_ENOMEM
 *         those of the engine */
sr_status sr_exchange_reduce(sr_exchange *x, int64_t total);

/* After a reduce: params->grad is the gradient of the update on all ranks. */
sr_status sr_exchange_gather(sr_exchange *x);

SR_END_C
