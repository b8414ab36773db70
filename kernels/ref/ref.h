/* ref.h - declarations shared by the files of the reference device.
 *
 * The reference computes in f64 with plain loops that follow the formulas.  Other devices are
 * tested against it, and it documents every op: to understand an optimised kernel, read the file of
 * the same name here.
 */
#pragma once

#include "core/base/thread.h"
#include "core/tensor/backend.h"

/* Iterates over all elements of a shape in row-major order and tracks the position of the element
 * in up to four tensors of that shape, with any strides. */
typedef struct ref_walk {
    int ndim, tensors;
    int64_t shape[SR_MAX_DIMS], index[SR_MAX_DIMS];
    const sr_tensor *t[4];
    int64_t at[4]; /* elements from the start of the view */
    int64_t left;  /* remaining elements, including the current one */
} ref_walk;

ref_walk ref_start(int tensors, const sr_tensor *const *t);
void ref_next(ref_walk *w);

static inline double ref_load(const ref_walk *w, int i) {
    return sr_element_load(sr_tensor_data(w->t[i]), w->t[i]->dtype, w->at[i]);
}
static inline void ref_store(const ref_walk *w, int i, double x) {
    sr_element_store(sr_tensor_data(w->t[i]), w->t[i]->dtype, w->at[i], x);
}

/* Long loops check once per row whether a stop was requested. */
static inline sr_status ref_poll(const char *op) {
    return sr_stop_requested() ? sr_fail(SR_ESTOP, "%s: stopped on request", op) : SR_OK;
}

/* The dropout factor of (row, col) of sequence s: 0 or 256 / keep. */
double ref_drop(const sr_layout *layout, int32_t s, sr_dropout drop, int64_t row, int64_t col,
                int head);
/* The same for a row of the batch; slack rows keep everything. */
double ref_drop_row(const sr_layout *layout, sr_dropout drop, int64_t t, int64_t col);

/* An activation at x, and dy times its derivative, which is taken at what is kept for backward. */
double ref_act(sr_act act, double x);
double ref_act_backward(sr_act act, double dy, double kept);

/* A binary op on i32. */
double ref_whole(sr_binary op, double a, double b);

/* Element i of a tensor of f64, and what follows it; NULL if there is no tensor. */
double *ref_element(const sr_tensor *t, int64_t i);

/* Norm of one row, and its backward; also used by embed.c.  mean is NULL for an RMS norm; beta may
 * be NULL. */
void ref_norm_row(double *y, double *mean, double *rstd, const double *sum, const double *gamma,
                  const double *beta, int64_t columns, double eps);
void ref_norm_row_backward(double *dsum, double *dgamma, double *dbeta, const double *dy,
                           const double *sum, const double *gamma, const double *mean, double rstd,
                           int64_t columns);

/* The ops: ref_NAME for each slot. */
#define SR_SLOT(name, ...) sr_status ref_##name(SR_PARAMETERS(__VA_ARGS__));
#include "core/tensor/slots.h"
