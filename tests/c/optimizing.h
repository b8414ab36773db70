/* optimizing.h - parameters of several kinds and how they are optimized, for tests of one update by
 * several optimizers. */
#pragma once

#include "tests/c/owners.h"

enum { WORD, QUERY, KEY, NORM, FROZEN, BIAS, COUNT };

static const sr_param_spec specs[COUNT] = {
    [WORD] = {.name = "word", .ndim = 2, .shape = {700, 101}, .std = 0.02, .pad_rows_to = 64},
    [QUERY] = {.name = "q", .ndim = 2, .shape = {200, 200}, .std = 0.02, .fuse = "qk"},
    [KEY] = {.name = "k", .ndim = 2, .shape = {200, 200}, .std = 0.02, .fuse = "qk"},
    [NORM] = {.name = "norm", .ndim = 1, .shape = {5000}, .init = SR_INIT_ONES, .keep_f32 = true},
    [FROZEN] = {.name = "frozen", .ndim = 1, .shape = {40000}, .std = 0.02},
    [BIAS] = {.name = "bias", .ndim = 1, .shape = {7}, .init = SR_INIT_ONES, .keep_f32 = true},
};

static inline sr_optim_opts opts_of(sr_method method) {
    return (sr_optim_opts){.method = method,
                           .beta1 = 0.9,
                           .beta2 = 0.999,
                           .eps = 1e-6,
                           .momentum = 0.95,
                           .nesterov = true,
                           .power = 1,
                           .max_skipped = 3};
}

static inline void fill_segments(sr_segment segments[COUNT]) {
    for (int i = 0; i < COUNT; i++)
        segments[i] = (sr_segment){.rate = 1 + i,
                                   .decay = 0.01 * i,
                                   .trust = i <= NORM,
                                   .frozen = i == FROZEN,
                                   .scale = 0.5};
}

/* Gradients that a step has: a draw keyed by the step, large enough to be clipped. */
static inline sr_status draw_all(sr_params *p, int step) {
    for (int i = 0; i < COUNT; i++)
        SR_TRY(p->device->backend->random(p->list[i].leaf->grad, SR_NORMAL, 1, SR_PURPOSE_INIT,
                                          (uint32_t)i, (uint32_t)step, 0, 0.1));
    return SR_OK;
}
