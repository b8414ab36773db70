/* sharded.h - an optimizer sharded over ranks (ZeRO stage 1): each rank keeps the moments of its
 * part of the store and updates that part.
 *
 * A step begins with the summed gradient in this rank's part of params->grad (the rest is
 * undefined) and ends with all values on every rank.  Each rank computes for its part, and an
 * all-gather gives the others:
 *
 *   squares of the gradient    -> global norm, finite check and clip
 *   LAMB: norms of chunks      -> trust ratios; StableAdamW: its divisors
 *   values                     -> or their bf16 copy, where ops read that
 *
 * Chunk sums are f64 and are added in the order of the chunks, so the result is bit-identical to
 * one optimizer over the whole store, on any number of ranks.  A matrix of Muon has one owner.
 *
 * With a bf16 copy, the f32 masters of other parts are not updated and take no memory on a host;
 * a checkpoint needs sr_sharded_gather().  Weights that ops read in f32 are always gathered.
 *
 * Source: Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO-1).
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/comm.h"
#include "core/train/optim.h"
#include "core/train/all_gather.h"

SR_BEGIN_C

typedef struct sr_sharded {
    sr_comm *comm; /* borrowed: outlive this */
    sr_optim *optim;
    sr_range *parts;   /* (ranks) elements of the store */
    sr_range *chunks;  /* (ranks) of optim->chunks */
    sr_range *slots;   /* (ranks) of losses: one per rank */
    sr_tensor *losses; /* (ranks) */
    sr_tensor *loss;   /* (1) their sum: finite when all are */
    bool scattered;    /* rank 0 does not have all masters */
} sr_sharded;

/* `optim` must own sr_optim_cut(params, comm->rank, comm->ranks).
 *
 * Errors: SR_EINVAL  it owns another range
 *         SR_ENOMEM
 */
sr_status sr_sharded_new(sr_sharded **out, sr_comm *comm, sr_optim *optim);
void sr_sharded_free(sr_sharded *sharded); /* may be NULL */

/* As sr_optim_step(), on all ranks: the same rate and clip; the update is skipped on all of them
 * if the loss of one is not finite. */
sr_status sr_sharded_step(sr_sharded *sharded, double rate, double clip, const sr_tensor *loss);

/* As sr_optim_swap_average(), on all ranks, with the values of all parts and their layouts. */
sr_status sr_sharded_swap_average(sr_sharded *sharded);

/* Collects all of params->value on rank 0; all ranks call it.  Costs nothing when rank 0 has it. */
sr_status sr_sharded_gather(sr_sharded *sharded);

SR_END_C
