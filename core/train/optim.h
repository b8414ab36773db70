/* optim.h - AdamW and LAMB: the host side of one fused update over the whole store.
 *
 * A step is two calls of the backend: the global norm with its finite check, then norm clip and
 * update where the parameters live.  The host does not wait: what came of a step is read when the
 * next one begins, or when somebody asks (sr_optim_settle()).
 *
 * An update whose gradient is not finite changes nothing: not the values, not the moments, not the
 * count of steps.  It is counted, and after max_skipped in a row the run is stopped.
 *
 * Batch size on packs: with `power` p the moments decay by beta^p an update, as if p updates of one
 * sequence each had been merged (packing paper); bias corrections use the same effective betas.
 *
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101; You et al. 2019, arXiv:1904.00962;
 * Krell et al. 2021, arXiv:2107.02027 (effective betas).
 */
#ifndef SR_TRAIN_OPTIM_H
#define SR_TRAIN_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/train/params.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_optim_opts {
    bool lamb; /* else AdamW */
    double beta1, beta2, eps;
    double power;    /* effective betas are beta^power; 1 is the plain optimizer */
    bool clip_eps;   /* clip by clip / (norm + 1e-6) instead of clip / norm */
    int max_skipped; /* stop after this many skipped updates in a row; at least 1 */
} sr_optim_opts;

/* What came of one step. */
typedef struct sr_optim_result {
    int64_t serial; /* which call of sr_optim_step(), from 1; 0: none yet */
    double norm;    /* of the whole gradient, before the clip */
    bool finite, applied;
} sr_optim_result;

typedef struct sr_optim {
    sr_params *params; /* borrowed: outlives the optimizer */
    sr_tensor *m, *v;  /* flat moments, like params->value */
    sr_segment *segments;
    sr_optim_opts opts;
    int64_t steps;     /* updates applied */
    int64_t skipped;   /* updates skipped, all of the run */
    int64_t in_a_row;  /* skipped since the last applied one */
    sr_tensor *result; /* of the call that is not settled yet */
    int64_t serial;    /* calls of sr_optim_step() */
    bool pending;      /* the last call's result has not been read */
    sr_optim_result last;
} sr_optim;

/* An optimizer with zero moments.
 *
 *   segments  (params->count) rate, decay, trust and frozen of each parameter, in the order of the
 *             list; offset and size are filled in here
 *
 * Errors: SR_EINVAL  a beta outside [0, 1), eps or power not above 0, a negative rate or decay
 *         SR_ENOMEM
 */
sr_status sr_optim_new(sr_optim **out, sr_params *params, const sr_segment *segments,
                       const sr_optim_opts *opts);
void sr_optim_free(sr_optim *optim); /* NULL is allowed */

/* One update with the gradients that stand in the store, which are left as they are.
 *
 *   rate   learning rate, finite and not negative
 *   clip   largest global norm, or 0 for none
 *   loss   scalar whose value must be finite too, or NULL
 *
 * Errors: SR_ENUMERIC  the step before was the max_skipped-th in a row with a gradient that is not
 *                      finite
 */
sr_status sr_optim_step(sr_optim *optim, double rate, double clip, const sr_tensor *loss);

/* Reads what came of the last step, waiting for the device, and counts it.  Costs nothing when it
 * has been read.  SR_ENUMERIC as above; *out (may be NULL) is filled in either case. */
sr_status sr_optim_settle(sr_optim_result *out, sr_optim *optim);

#ifdef __cplusplus
}
#endif
#endif
