/* optim.h - AdamW, LAMB, StableAdamW, Muon: the host side of one fused update over the whole store.
 *
 * A step is two calls of the backend: the global norm with its finite check, then norm clip and
 * update where the parameters live.  The host does not wait: the results of steps collect in a
 * short history on the device, which is read when it is full or on request
 * (sr_optim_read_results()).  On a device without queues it has room for one.
 *
 * An update whose gradient is not finite changes nothing: not the values, not the moments, not the
 * count of steps.  It is counted, and after max_skipped in a row the run is stopped.
 *
 * Several optimizers may share a store: each owns a range of its elements and keeps the moments of
 * that range only.  A step is then sr_optim_begin(), sr_optim_moments() and sr_optim_update();
 * before each of the last two the owners all-gather `squares`, then `norms`, and before
 * sr_optim_finish() the values (sharded.h).  Ranges begin and end at chunks, over which norms are
 * summed in order, so the result is bit-identical to one optimizer.
 *
 * With Muon matrices are segments with rows and columns; the others are updated by AdamW.  A
 * parameter that has several matrices, one below the other, has a segment for each.  Only the
 * first moment of a matrix is state: the second holds its direction during a step.
 *
 * With `average` a third store has the exponential moving average of the values, moved in the pass
 * that moves them; see average.h.
 *
 * Batch size on packs: with `power` p the moments decay by beta^p an update, as if p updates of one
 * sequence each had been merged (packing paper); bias corrections use the same effective betas.
 *
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101; You et al. 2019, arXiv:1904.00962;
 * Krell et al. 2021, arXiv:2107.02027 (effective betas); StableAdamW: Wortsman et al. 2023,
 * arXiv:2304.13013; Muon: muon.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/train/params.h"

SR_BEGIN_C

typedef struct sr_optim_opts {
    sr_method method;
    double beta1, beta2, eps;
    double momentum; /* Muon: of matrices, with or without nesterov; see `moments` in slots.h */
    bool nesterov;
    double power;          /* effective betas are beta^power; 1 is the plain optimizer */
    bool clip_eps;         /* clip by clip / (norm + 1e-6) instead of clip / norm */
    double average;        /* decay of the moving average of the values; 0: none */
    int max_skipped;       /* stop after this many skipped steps in a row; at least 1 */
    sr_range range;        /* from sr_optim_cut(); {0, 0}: the whole store */
    int64_t segment_count; /* 0: one for each parameter */
} sr_optim_opts;

/* The outcome of one step. */
typedef struct sr_optim_result {
    int64_t serial; /* which call of sr_optim_step(), from 1; 0: none yet */
    double norm;    /* of the whole gradient, before the clip */
    bool finite, applied;
} sr_optim_result;

typedef struct sr_optim {
    sr_params *params;  /* borrowed: outlives the optimizer */
    sr_tensor *m, *v;   /* flat moments of the range */
    sr_tensor *average; /* flat, of the range; NULL: none */
    bool averaging;     /* whether the next step moves it */
    sr_range range;
    sr_segment *segments;
    int64_t segment_count;
    int64_t *segment_of; /* (params->count) the first of each parameter */
    sr_chunk *chunks;    /* of all segments that are not frozen */
    int64_t chunk_count;
    int64_t from, upto; /* those of the range */
    sr_tensor *squares; /* (chunk_count) f64: of the gradient */
    sr_tensor *norms;   /* (chunk_count, 2) f64: what `moments` sums; NULL for AdamW */
    sr_tensor *work;    /* Muon: room for its largest matrix, or NULL */
    sr_step step;       /* in progress */
    sr_optim_opts opts;
    int64_t steps;            /* steps applied */
    int64_t skipped;          /* steps skipped, all of the run */
    int64_t in_a_row;         /* skipped since the last applied one */
    int64_t averaged;         /* steps that moved the average; 0: it is not the average of any */
    sr_tensor *result;        /* (SR_RESULTS) of the last step; see sr_step */
    sr_tensor *history;       /* (room, SR_RESULTS): the result of step n in row (n - 1) % room */
    sr_optim_result *results; /* (room) those that were read, in the same places */
    int64_t room;             /* at least 1 and at most max_skipped */
    int64_t serial;           /* calls of sr_optim_step() */
    int64_t pending;          /* the last calls, whose results have not been read */
} sr_optim;

/* An optimizer with zero moments.
 *
 *   segments  (params->count) rate, decay, trust, frozen, rows, columns and scale of each
 * parameter, in the order of the list; offset and size are filled in here.  With more segments than
 * parameters, those with rows that follow each other share a parameter until they cover it
 *
 * Errors: SR_EINVAL  a beta outside [0, 1), eps or power not above 0, a negative rate or decay, a
 *                    matrix that is none, or of which the range has a part
 *         SR_ENOMEM
 */
sr_status sr_optim_new(sr_optim **out, sr_params *params, const sr_segment *segments,
                       const sr_optim_opts *opts);
void sr_optim_free(sr_optim *optim); /* may be NULL */

/* The part of params' store that belongs to owner `part` of `parts` (from 0): about as much work
 * for each, cut between chunks, but not inside of parameters that are kept whole; empty when there
 * are more parts than places to cut. */
sr_range sr_optim_cut(const sr_params *params, int part, int parts);

/* One update with the gradients in the store, which are left as they are.
 *
 *   rate   learning rate, finite and not negative
 *   clip   largest global norm, or 0 for none
 *   loss   scalar whose value must be finite too, or NULL
 *
 * Errors: SR_ENUMERIC  the history was full, and sr_optim_read_results() found a reason to stop
 *         SR_EINVAL    the optimizer owns only a part of the store
 */
sr_status sr_optim_step(sr_optim *optim, double rate, double clip, const sr_tensor *loss);

/* Whether a step needs the norms of all owners before sr_optim_update(). */
bool sr_optim_shares_norms(const sr_optim *optim);

/* The same in four calls. */
sr_status sr_optim_begin(sr_optim *optim, double rate, double clip); /* squares of the range */
sr_status sr_optim_moments(sr_optim *optim, const sr_tensor *loss);  /* -> norms of the range */
sr_status sr_optim_update(sr_optim *optim);                          /* -> values of the range */
sr_status sr_optim_finish(sr_optim *optim);                          /* all values are complete */

/* SR_EINVAL unless `loss` is NULL or a scalar of the compute dtype on the optimizer's device. */
sr_status sr_optim_check_loss(const sr_optim *optim, const sr_tensor *loss);

/* The chunks, by index, that begin in a range. */
sr_range sr_optim_chunks(const sr_optim *optim, sr_range elements);

/* The moments of parameter i that lie in the range, as flat views: *held is empty and the views are
 * NULL when none do.  Else they are the elements [held->first, held->last) of the parameter. */
sr_status sr_optim_moments_of(sr_tensor **m, sr_tensor **v, sr_range *held, const sr_optim *optim,
                              int64_t i);

/* Waits for the device and counts the outcomes of steps that were not read so far.
 *
 * Errors: SR_ENUMERIC  the loss or the gradient was not finite max_skipped times in a row
 */
sr_status sr_optim_read_results(sr_optim *optim);

/* The outcome of step `serial`, one of the last `room` steps whose results were read; else zeros.
 */
sr_optim_result sr_optim_result_of(const sr_optim *optim, int64_t serial);

/* Continues from saved counts. */
sr_status sr_optim_set_counts(sr_optim *optim, int64_t steps, int64_t skipped, int64_t in_a_row,
                              int64_t averaged);

SR_END_C
