/* activation.h - what a linear layer does besides its products; rows are contiguous. */
#pragma once

#include "kernels/cuda/gpu.h"

/* y = act(x + b); pre = x + b.  b and pre may be NULL; x may be y or pre. */
sr_status bias_act(gpu *g, const char *op, void *y, void *pre, const void *x, const void *b,
                   sr_dtype dtype, int64_t rows, int64_t columns, sr_act act);

/* dpre = dy act'; db += its column sums; each may be NULL, and dpre may be dy.  `kept`: the input
 * of a GELU, the output of another activation, NULL of SR_ACT_NONE.  Uses SCRATCH_PARTS. */
sr_status act_backward(gpu *g, const char *op, void *dpre, float *db, const void *dy,
                       const void *kept, sr_dtype dtype, int64_t rows, int64_t columns, sr_act act);

/* out += scale * column sums of x (rows, columns), `stride` elements from row to row, all of
 * which may be read; `scale` on the device, or NULL for 1.  Uses SCRATCH_PARTS. */
sr_status add_columns(gpu *g, const char *op, float *out, const void *x, const float *scale,
                      sr_dtype dtype, int64_t rows, int64_t columns, int64_t stride);
