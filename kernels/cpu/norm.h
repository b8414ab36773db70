/* norm.h - the backward pass of a norm, shared by residual_norm and embed. */
#pragma once

#include "kernels/cpu/cpu.h"

SR_BEGIN_C

/* dsum = gradient of the sum, with `more` from elsewhere; dx = dsum through the dropout; dgamma,
 * dbeta += .  Each may be NULL; mean is for an RMS norm.
 * drop_after: dropout follows the norm (embed), so it is applied to dy first, and dx is NULL.
 * Slack rows of the layout get zeros and contribute nothing; layout may be NULL. */
typedef struct sr_norm_job {
    const sr_cpu_state *cpu;
    sr_float_rows dx, dsum, dy, more, sum;
    float *dgamma, *dbeta;
    const float *gamma, *mean, *rstd;
    int64_t rows, cols;
    const sr_layout *layout;
    sr_dropout drop;
    bool drop_after;
    float *partial; /* sr_cpu_norm_room() bytes, for example in `shared` */
} sr_norm_job;

static inline float *sr_cpu_floats(const sr_tensor *t) { /* NULL if there is no tensor */
    return t != NULL ? SR_DATA(float, t) : NULL;
}

size_t sr_cpu_norm_room(const sr_norm_job *j);
sr_status sr_cpu_norm_backward(const sr_tensor *t, sr_norm_job *j);

SR_END_C
