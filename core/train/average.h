/* average.h - the exponential moving average of the weights that an optimizer keeps.
 *
 * After each applied step a += share (w - a), in the pass that moves w, where share falls from 1 at
 * the first averaged step to 1 - decay (sr_step_share()).  So the average is that of the weights
 * since averaging began, and depends neither on what they were before nor on a warm-up of the
 * decay.
 *
 * To be evaluated, it changes places with the weights and back; both moves are exact.
 *
 * Source: Polyak and Juditsky 1992, doi:10.1137/0330046; the correction: Kingma and Ba 2014,
 * arXiv:1412.6980, section 3.
 */
#pragma once

#include "core/train/optim.h"

SR_BEGIN_C

/* The average of parameter i, as sr_optim_moments_of(): *held is empty and the view is NULL for
 * what lies outside the range, is frozen, or if there is none. */
sr_status sr_optim_average_of(sr_tensor **average, sr_range *held, const sr_optim *optim,
                              int64_t i);

/* The values of the range and their average change places, and the bf16 copy of the range follows.
 * The layouts of weights do not: sr_params_after_step().
 *
 * Errors: SR_EINVAL  no step has been averaged
 */
sr_status sr_optim_swap_average(sr_optim *optim);

SR_END_C
