/* coarse.h - helpers of the coarse ops; for ops_coarse.c and ops_loss.c only. */
#ifndef SR_TENSOR_COARSE_H
#define SR_TENSOR_COARSE_H

#include "core/tensor/front.h"

#ifdef __cplusplus
extern "C" {
#endif

/* held[i] = given[i], contiguous, retained (NULL stays NULL). */
sr_status sr_coarse_inputs(sr_tensor **held, int count, sr_tensor *const *given);
void sr_coarse_drop(sr_tensor **held, int count);

/* For rules: a new tensor in dx[i] for a kernel to write, if a gradient is needed. */
sr_status sr_coarse_dx(sr_node *node, sr_tensor **dx, int i);

/* The dtype of lse, mean, rstd, nll. */
sr_dtype sr_statistics_dtype(const sr_device *device);

#ifdef __cplusplus
}
#endif
#endif
