/* ops.h - the public ops.
 *
 * A function here checks its arguments (liveness, device, dtype, shape), allocates the result,
 * calls the device's kernel and records the op for backward.  It returns a new tensor with one
 * reference in *out, NULL on failure.
 *
 * Errors of all: SR_EINVAL  names the op, what was given, what was expected and a remedy
 *                SR_EDEVICE the device has no such op        SR_ENOMEM
 *
 * Small ops broadcast, take any strides and combine mixed dtypes as follows: bool and i32 give i32
 * (sums and products wrap); with a real tensor, or where the result cannot be whole (division,
 * powers, exp ...), everything becomes real.  On a device that computes in f32, bf16 stays bf16:
 * with bf16, with bool and i32, and with a single number (no dimensions); f32 tensors make it f32.
 * Sums and extremes are f32 regardless of the dtype of their input.  `ref` computes all of it in
 * f64.
 *
 * Coarse ops take activations and weights of one dtype, f32 or bf16 (f64 on ref), and their results
 * have that dtype; norm weights, loss weights, statistics and losses are f32 (f64 on ref).
 *
 * Dimensions count from 0 here (the bindings shift them).
 */
#pragma once

#include "core/base/status.h"
#include "core/tensor/backend.h"
#include "core/tensor/tensor.h"

SR_BEGIN_C

enum { SR_ALL_DIMS = -1 };

/* ---- making (ops_small.c) -------------------------------------------------------------------- */
sr_status sr_tensor_full(sr_tensor **out, sr_device *device, sr_dtype dtype, int ndim,
                         const int64_t *shape, double value);
sr_status sr_tensor_scalar(sr_tensor **out, sr_device *device, sr_dtype dtype, double value);

/* ---- elementwise (ops_small.c) --------------------------------------------------------------- */
const char *sr_unary_name(sr_unary op); /* as in "exp" */
const char *sr_binary_name(sr_binary op);
sr_status sr_op_unary(sr_tensor **out, sr_tensor *x, sr_unary op);
sr_status sr_op_binary(sr_tensor **out, sr_tensor *a, sr_tensor *b, sr_binary op);
sr_status sr_op_where(sr_tensor **out, sr_tensor *condition, sr_tensor *a, sr_tensor *b);
/* The tensor itself, retained, if there is nothing to do; else a copy. */
sr_status sr_op_convert(sr_tensor **out, sr_tensor *x, sr_dtype dtype);
sr_status sr_op_contiguous(sr_tensor **out, sr_tensor *x);
sr_status sr_op_to_device(sr_tensor **out, sr_tensor *x, sr_device *device);
sr_status sr_op_clone(sr_tensor **out, sr_tensor *x); /* always a copy */

/* ---- in place (ops_small.c) ------------------------------------------------------------------ */
/* Not recorded: SR_EINVAL while recording is on for a tensor with history or requires_grad. */
sr_status sr_op_fill_in_place(sr_tensor *y, double value);
sr_status sr_op_copy_in_place(sr_tensor *y, sr_tensor *x); /* x is broadcast to y */
sr_status sr_op_binary_in_place(sr_tensor *y, sr_tensor *x, sr_binary op);
sr_status sr_op_random_in_place(sr_tensor *y, sr_random kind, uint64_t seed, sr_purpose purpose,
                                uint32_t uid, uint32_t epoch, double a, double b);

/* ---- views (ops_view.c) ---------------------------------------------------------------------- */
/* One size may be -1.  Copies if the strides do not allow a view. */
sr_status sr_op_reshape(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *shape);
/* Like reshape, but SR_EINVAL instead of a copy. */
sr_status sr_op_view(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *shape);
sr_status sr_op_permute(sr_tensor **out, sr_tensor *x, const int *order);
sr_status sr_op_transpose(sr_tensor **out, sr_tensor *x, int a, int b);
/* Expands sizes of 1; new dimensions come first; -1 keeps a size. */
sr_status sr_op_expand(sr_tensor **out, sr_tensor *x, int ndim, const int64_t *shape);
sr_status sr_op_narrow(sr_tensor **out, sr_tensor *x, int dim, int64_t start, int64_t length);
sr_status sr_op_select(sr_tensor **out, sr_tensor *x, int dim, int64_t i);
sr_status sr_op_squeeze(sr_tensor **out, sr_tensor *x, int dim); /* or SR_ALL_DIMS */
sr_status sr_op_unsqueeze(sr_tensor **out, sr_tensor *x, int dim);
sr_status sr_op_detach(sr_tensor **out, sr_tensor *x); /* the same view without history */

/* ---- reductions, products, rows (ops_reduce.c) ----------------------------------------------- */
/* Over one dimension or SR_ALL_DIMS; `keep` leaves it with size 1. */
sr_status sr_op_reduce(sr_tensor **out, sr_tensor *x, sr_reduction op, int dim, bool keep);
sr_status sr_op_mean(sr_tensor **out, sr_tensor *x, int dim, bool keep);
/* g summed over the dimensions along which `shape` was broadcast to g's shape, as `dtype`; g itself
 * when there are none. */
sr_status sr_op_sum_to(sr_tensor **out, sr_tensor *g, sr_dtype dtype, int ndim,
                       const int64_t *shape);
/* (..., m, k) (..., k, n) -> (..., m, n); batch dimensions are broadcast. */
sr_status sr_op_matmul(sr_tensor **out, sr_tensor *a, sr_tensor *b);
sr_status sr_op_softmax(sr_tensor **out, sr_tensor *x, int dim, bool log);
sr_status sr_op_gather_rows(sr_tensor **out, sr_tensor *x, sr_tensor *rows);
/* x (T, ...) with the rows of these numbers, each at most once, replaced by values (M, ...). */
sr_status sr_op_put_rows(sr_tensor **out, sr_tensor *x, sr_tensor *rows, sr_tensor *values);
/* Takes rows out for a while, without the copies of gather_rows and put_rows: `taken` (count, ...)
 * has these rows of x, each at most once, then zeros; `rest` is x without them, for
 * sr_op_return_rows() only, which puts the first rows of `values` (at least as many as `rows`) in
 * their place.
 *
 *   in_place  x itself is overwritten, and must not be read again */
sr_status sr_op_take_rows(sr_tensor **taken, sr_tensor **rest, sr_tensor *x, sr_tensor *rows,
                          int64_t count);
sr_status sr_op_return_rows(sr_tensor **out, sr_tensor *rest, sr_tensor *rows, sr_tensor *values,
                            bool in_place);
sr_status sr_op_cat(sr_tensor **out, int count, sr_tensor *const *list, int dim);

/* ---- coarse (ops_coarse.c, ops_encoder.c, ops_group.c, ops_norm.c ...); shapes in slots.h ------
 */
sr_status sr_op_linear(sr_tensor **out, sr_tensor *x, sr_tensor *w, sr_tensor *b, sr_act act);
/* All three, in the order of groups; not recorded.  groups >= 1; capacity 0: no limit. */
sr_status sr_op_group_rows(sr_tensor **rows, sr_tensor **place, sr_tensor **starts,
                           sr_tensor *items, const sr_layout *layout, int64_t groups,
                           int64_t capacity);
/* starts as of group_rows; b may be NULL */
sr_status sr_op_grouped_linear(sr_tensor **out, sr_tensor *x, sr_tensor *w, sr_tensor *b,
                               sr_tensor *starts, sr_act act);
/* rows: of the queries, or NULL: all; must ascend, which devices without `attends_rows` do not
 * check. kv_heads 0: heads; scale 0: 1 / sqrt(D) */
sr_status sr_op_attention(sr_tensor **out, sr_tensor *qkv, sr_tensor *rows, const sr_layout *layout,
                          sr_attention_opts opts);

enum { SR_ROTARY_LONGEST = 1 << 20 };
typedef struct sr_rotary_opts {
    int heads, kv_heads; /* as of attention */
    double theta;
    int64_t limit; /* explicit positions are below; 0: the longest sequence */
    bool in_place; /* qkv is overwritten, and must not be read again */
} sr_rotary_opts;
/* qkv (T, (A + 2 K) D) with its query and key heads turned by the position of the row in its
 * sequence, or by explicit ones. */
sr_status sr_op_rotary(sr_tensor **out, sr_tensor *qkv, sr_tensor *positions,
                       const sr_layout *layout, sr_rotary_opts opts);
sr_status sr_op_gated(sr_tensor **out, sr_tensor *x, sr_act act, bool gate_first);

typedef struct sr_norm {
    double eps;
    bool rms; /* divides by the root of the mean square; else a layer norm */
} sr_norm;
/* residual and beta may be NULL.  *sum, unless NULL, is set to dropout(x) + residual, through which
 * gradients flow as well; x itself where nothing is dropped or added. */
sr_status sr_op_residual_norm(sr_tensor **out, sr_tensor **sum, sr_tensor *x, sr_tensor *residual,
                              sr_tensor *gamma, sr_tensor *beta, const sr_layout *layout,
                              sr_norm norm, sr_dropout drop);

/* All but word may be NULL: without gamma there is no norm. */
typedef struct sr_embeddings {
    sr_tensor *word, *position, *type, *gamma, *beta;
} sr_embeddings;
/* types NULL: row 0 of the type table; positions NULL: those in the sequences. */
sr_status sr_op_embed(sr_tensor **out, sr_tensor *ids, sr_tensor *types, sr_tensor *positions,
                      const sr_embeddings *tables, const sr_layout *layout, sr_norm norm,
                      sr_dropout drop);
sr_status sr_op_dropout(sr_tensor **out, sr_tensor *x, const sr_layout *layout, sr_dropout drop);
/* (N, K): the mean over the rows of each sequence of x (T, K), in the dtype of statistics. */
sr_status sr_op_sequence_mean(sr_tensor **out, sr_tensor *x, const sr_layout *layout);

/* All three or none of total (), nll (M), correct (M); gradients flow from total.  bias may be
 * NULL. */
sr_status sr_op_mlm_loss(sr_tensor **total, sr_tensor **nll, sr_tensor **correct, sr_tensor *x,
                         sr_tensor *word, sr_tensor *bias, sr_tensor *labels, sr_tensor *weights);
sr_status sr_op_cross_entropy(sr_tensor **total, sr_tensor **nll, sr_tensor **correct,
                              sr_tensor *logits, sr_tensor *labels, sr_tensor *weights);
/* (M) i32, a class for each row of the logits; not recorded.  Keys as in slots.h. */
sr_status sr_op_sample(sr_tensor **out, sr_tensor *logits, sr_tensor *keys, uint64_t seed);

SR_END_C
