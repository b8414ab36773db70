/* sharded.h - one optimizer over many ranks (ZeRO stage 1): each rank keeps the moments of its
 * piece of the store only, and updates that piece.
 *
 * A step begins with the gradient of the update complete in the own piece of params->grad (and
 * nothing known of the rest), and ends with all values on every rank:
 *
 *   squares of the own chunks, spread    -> global norm, the finite check and the clip
 *   LAMB: norms of the own chunks, spread -> trust ratios
 *   own values, spread                   -> or their bf16 copy, when ops read that
 *
 * Chunk sums are f64 and are added in the order of the chunks, so the bits are those of one
 * optimizer over the whole store, for any number of ranks.
 *
 * With a bf16 copy the masters of other pieces are not updated, and on a host they take no memory;
 * a checkpoint needs sr_sharded_gather().  Weights that ops read in f32 are always spread.
 *
 * Source: Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO-1).
 */
#ifndef SR_TRAIN_SHARDED_H
#define SR_TRAIN_SHARDED_H

#include "core/base/status.h"
#include "core/tensor/comm.h"
#include "core/train/optim.h"
#include "core/train/all_gather.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_sharded {
    sr_comm *comm; /* borrowed: outlive this */
    sr_optim *optim;
    sr_range *pieces;  /* (ranks) elements of the store */
    sr_range *chunks;  /* (ranks) of optim->chunks */
    sr_range *slots;   /* (ranks) of losses: one each */
    sr_tensor *losses; /* (ranks) */
    sr_tensor *loss;   /* (1) their sum: finite when all are */
    bool scattered;    /* no rank has all masters */
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

/* Makes params->value whole on rank 0; all ranks call it.  Costs nothing when it is. */
sr_status sr_sharded_gather(sr_sharded *sharded);

#ifdef __cplusplus
}
#endif
#endif
