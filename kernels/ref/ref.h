/* ref.h - declarations shared by the files of the reference device.
 *
 * The reference computes in f64 with plain loops that follow the formulas.  Other devices are
 * tested against it, and it documents every op: to understand an optimised kernel, read the file of
 * the same name here.
 */
#ifndef SR_REF_H
#define SR_REF_H

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

/* An activation at x, and its derivative from the value saved for backward: its input for the two
 * GELUs, else its output. */
double ref_act(sr_act act, double x);
double ref_act_slope(sr_act act, double at_hand);

/* A binary op on i32: sums, differences and products wrap. */
double ref_whole(sr_binary op, double a, double b);

/* small.c */
sr_status ref_fill(sr_tensor *y, double value);
sr_status ref_copy(sr_tensor *y, const sr_tensor *x);
sr_status ref_unary(sr_tensor *y, const sr_tensor *x, sr_unary op);
sr_status ref_unary_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *x,
                             const sr_tensor *y, sr_unary op);
sr_status ref_binary(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, sr_binary op);
sr_status ref_where(sr_tensor *y, const sr_tensor *condition, const sr_tensor *a,
                    const sr_tensor *b);
sr_status ref_axpby(sr_tensor *y, const sr_tensor *x, double alpha, double beta);
sr_status ref_random(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose, uint32_t uid,
                     uint32_t epoch, double a, double b);

/* reduce.c */
sr_status ref_reduce(sr_tensor *y, const sr_tensor *x, sr_reduction op);
sr_status ref_matmul(sr_tensor *y, const sr_tensor *a, const sr_tensor *b, double alpha,
                     double beta);
sr_status ref_softmax(sr_tensor *y, const sr_tensor *x, bool log);
sr_status ref_softmax_backward(sr_tensor *dx, const sr_tensor *dy, const sr_tensor *y, bool log);
sr_status ref_gather_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows);
sr_status ref_scatter_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows);
sr_status ref_put_rows(sr_tensor *y, const sr_tensor *x, const sr_tensor *rows);

/* linear.c */
sr_status ref_linear(sr_tensor *y, sr_tensor *pre, const sr_tensor *x, const sr_tensor *w,
                     const sr_tensor *b, sr_act act);
sr_status ref_linear_backward(sr_tensor *dx, sr_tensor *dw, sr_tensor *db, const sr_tensor *dy,
                              const sr_tensor *x, const sr_tensor *w, const sr_tensor *pre,
                              const sr_tensor *y, sr_act act);

/* attention.c */
sr_status ref_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                        const sr_layout *layout, int heads, double scale, sr_dropout drop);
sr_status ref_attention_backward(sr_tensor *dqkv, const sr_tensor *dout, const sr_tensor *qkv,
                                 const sr_tensor *out, const sr_tensor *lse,
                                 const sr_layout *layout, int heads, double scale, sr_dropout drop);

/* norm.c */
sr_status ref_residual_norm(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                            const sr_tensor *x, const sr_tensor *residual, const sr_tensor *gamma,
                            const sr_tensor *beta, const sr_layout *layout, double eps,
                            sr_dropout drop);
sr_status ref_residual_norm_backward(sr_tensor *dx, sr_tensor *dresidual, sr_tensor *dgamma,
                                     sr_tensor *dbeta, const sr_tensor *dy, const sr_tensor *sum,
                                     const sr_tensor *gamma, const sr_tensor *mean,
                                     const sr_tensor *rstd, const sr_layout *layout,
                                     sr_dropout drop);
sr_status ref_dropout(sr_tensor *y, const sr_tensor *x, const sr_layout *layout, sr_dropout drop);
/* Layer norm of one row, and its backward; also used by embed.c. */
void ref_norm_row(double *y, double *mean, double *rstd, const double *sum, const double *gamma,
                  const double *beta, int64_t columns, double eps);
void ref_norm_row_backward(double *dsum, double *dgamma, double *dbeta, const double *dy,
                           const double *sum, const double *gamma, double mean, double rstd,
                           int64_t columns);

/* embed.c */
sr_status ref_embed(sr_tensor *y, sr_tensor *sum, sr_tensor *mean, sr_tensor *rstd,
                    const sr_tensor *ids, const sr_tensor *types, const sr_tensor *word,
                    const sr_tensor *position, const sr_tensor *type, const sr_tensor *gamma,
                    const sr_tensor *beta, const sr_layout *layout, double eps, sr_dropout drop);
sr_status ref_embed_backward(sr_tensor *dword, sr_tensor *dposition, sr_tensor *dtype,
                             sr_tensor *dgamma, sr_tensor *dbeta, const sr_tensor *dy,
                             const sr_tensor *ids, const sr_tensor *types, const sr_tensor *sum,
                             const sr_tensor *gamma, const sr_tensor *mean, const sr_tensor *rstd,
                             const sr_layout *layout, sr_dropout drop);

/* loss.c */
sr_status ref_mlm_loss(sr_tensor *total, sr_tensor *nll, sr_tensor *correct, sr_tensor *dlogits,
                       const sr_tensor *x, const sr_tensor *word, const sr_tensor *bias,
                       const sr_tensor *labels, const sr_tensor *weights);
sr_status ref_mlm_loss_backward(sr_tensor *dx, sr_tensor *dword, sr_tensor *dbias,
                                const sr_tensor *dtotal, const sr_tensor *dlogits,
                                const sr_tensor *x, const sr_tensor *word);
sr_status ref_cross_entropy(sr_tensor *total, sr_tensor *nll, sr_tensor *correct,
                            sr_tensor *dlogits, const sr_tensor *logits, const sr_tensor *labels,
                            const sr_tensor *weights);

/* optim.c */
sr_status ref_grad_squares(sr_tensor *squares, const sr_tensor *grad, const sr_chunk *chunks,
                           int64_t first, int64_t last);
sr_status ref_grad_norm(sr_tensor *result, const sr_tensor *squares, int64_t count,
                        const sr_tensor *loss);
sr_status ref_lamb_moments(const sr_step *step);
sr_status ref_step(const sr_step *step);

#endif
