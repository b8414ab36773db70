/* coarse.h - helpers of the coarse ops; for core/tensor/ops_*.c only. */
#pragma once

#include "core/tensor/front.h"

SR_BEGIN_C

/* held[i] = given[i], contiguous, retained (NULL stays NULL). */
sr_status sr_coarse_inputs(sr_tensor **held, int count, sr_tensor *const *given);
void sr_coarse_drop(sr_tensor **held, int count);

/* For rules: the gradient of output k, made contiguous and owned by the node; NULL if none. */
sr_status sr_coarse_dy(sr_node *node, sr_tensor **dy, int k);
/* For rules: a new tensor in dx[i] for a kernel to write, if a gradient is needed. */
sr_status sr_coarse_dx(sr_node *node, sr_tensor **dx, int i);

/* The gradient of the bias of the linear layer that made input i of the node, if it is nothing but
 * the sum of that input's gradient over rows, and the kernel of the node can add it: the layer then
 * does not.  NULL otherwise. */
sr_status sr_linear_bias_sink(sr_node *node, int i, sr_tensor **sink);

/* Checks a dropout probability, and that its keys, which are of the layout, exist. */
sr_status sr_coarse_check_drop(const char *op, sr_dropout drop, const sr_layout *layout);

/* The dtype of lse, mean, rstd, nll. */
sr_dtype sr_statistics_dtype(const sr_device *device);

SR_END_C
