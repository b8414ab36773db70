/* slots.h - the ops of a device, once: SR_SLOT(name, arguments) for each.
 *
 * Included with SR_SLOT defined, by the table (backend.h) and by every device for its prototypes
 * and its entries, so that an op has its name and its arguments here only.  All return sr_status.
 * The rules for every slot are in backend.h.  An argument is one of
 *
 *   OUT(y)              sr_tensor *y
 *   IN(x)               const sr_tensor *x
 *   LAYOUT(layout)      const sr_layout *layout
 *   VALUE(type, name)   type name
 *
 * SR_PARAMETERS(arguments) is the list of parameters in C.
 */
#ifndef SR_SLOT
#include "core/tensor/backend.h" /* compiled alone */
#define SR_SLOT(name, ...)
#endif
#ifndef SR_PARAMETERS
#define SR_PARAMETER_OUT(name) sr_tensor *name
#define SR_PARAMETER_IN(name) const sr_tensor *name
#define SR_PARAMETER_LAYOUT(name) const sr_layout *name
#define SR_PARAMETER_VALUE(type, name) type name
#define SR_PARAMETERS(...) SR_EACH_COMMA(SR_PARAMETER_, __VA_ARGS__)
#endif
/* clang-format off */

/* ---- small ops: any strides, broadcast by stride 0 ------------------------------------ */
SR_SLOT(fill, OUT(y), VALUE(double, value))
SR_SLOT(copy, OUT(y), IN(x)) /* same shape; any dtypes */
SR_SLOT(unary, OUT(y), IN(x), VALUE(sr_unary, op))
/* dx = dy * op'(x); y = op(x) is given */
SR_SLOT(unary_backward, OUT(dx), IN(dy), IN(x), IN(y), VALUE(sr_unary, op))
/* a and b are already expanded to y's shape; i32 or real arithmetic, bool comparisons */
SR_SLOT(binary, OUT(y), IN(a), IN(b), VALUE(sr_binary, op))
SR_SLOT(where, OUT(y), IN(condition), IN(a), IN(b))
/* y = alpha x + beta y; sums of gradients and in-place ops */
SR_SLOT(axpby, OUT(y), IN(x), VALUE(double, alpha), VALUE(double, beta))
/* y has x's ndim, with size 1 along the reduced dimensions; argmax and argmin give i32
 * positions from 0 along exactly one dimension, the lowest on a tie */
SR_SLOT(reduce, OUT(y), IN(x), VALUE(sr_reduction, op))
/* y = alpha a b + beta y, batched: (..., m, n) = (..., m, k) (..., k, n), batch dimensions
 * expanded; beta 0 or 1 */
SR_SLOT(matmul, OUT(y), IN(a), IN(b), VALUE(double, alpha), VALUE(double, beta))
SR_SLOT(softmax, OUT(y), IN(x), VALUE(bool, log)) /* last dimension */
SR_SLOT(softmax_backward, OUT(dx), IN(dy), IN(y), VALUE(bool, log))
/* y[m, ...] = x[rows[m], ...]; rows (M) i32, checked by the device: SR_EINVAL names the row */
SR_SLOT(gather_rows, OUT(y), IN(x), IN(rows))
/* y[rows[m], ...] += x[m, ...], in the order of m; y (real) is not cleared; x is real or bf16 */
SR_SLOT(scatter_rows, OUT(y), IN(x), IN(rows))
/* y[rows[m], ...] = x[m, ...], or 0 where x is NULL; other rows are left as they are.  Rows
 * that are out of range or duplicate are an error */
SR_SLOT(put_rows, OUT(y), IN(x), IN(rows))
/* Element i (row-major) is a function of (seed, purpose, uid, epoch, i): word i % 4 of
 * Philox4x32-10 with counter { low word of i / 4, uid, purpose << 24 | (i / 4) >> 32, epoch }.
 * Uniform in [a, b): a + (b - a) sr_unit(word); normal with mean a, deviation b: Box-Muller on
 * words (0, 1) and (2, 3); truncated: drawn again with counter word 3 = epoch + attempt << 24
 * until |x - a| <= 2 b. */
SR_SLOT(random, OUT(y), VALUE(sr_random, kind), VALUE(uint64_t, seed), VALUE(sr_purpose, purpose),
    VALUE(uint32_t, uid), VALUE(uint32_t, epoch), VALUE(double, a), VALUE(double, b))

/* ---- coarse ops ----------------------------------------------------------------------- */
/* y (T, F) = act(x (T, H) w (F, H)^T + b (F)); b may be NULL.  pre (T, F) receives the value
 * before a GELU; it is NULL for the other activations, where y serves in backward, and when no
 * gradient is needed. */
SR_SLOT(linear, OUT(y), OUT(pre), IN(x), IN(w), IN(b), VALUE(sr_act, act))
/* dx = , or += with add_x, where the device `adds`; dw += , or = with set_w, where it has
 * `zero_ranges`; db += ; each may be NULL */
SR_SLOT(linear_backward, OUT(dx), OUT(dw), OUT(db), IN(dy), IN(x), IN(w), IN(pre), IN(y),
    VALUE(sr_act, act), VALUE(bool, add_x), VALUE(bool, set_w))

/* Items (K, T) i32 name a group in [0, groups) each, or none; item i is of row i % T, and those of
 * slack have none.  In the order of groups, within a group in their own: rows (K T) i32, the row of
 * each; place (K, T) i32, where item i has gone; starts (groups + 1) i32, where each group begins,
 * and the items without one, which come last.  So do those beyond `capacity` in their group. */
SR_SLOT(group_rows, OUT(rows), OUT(place), OUT(starts), IN(items), LAYOUT(layout),
    VALUE(int64_t, capacity))
/* linear of each group: rows starts[g] .. starts[g + 1] - 1 of x (M, H), y and pre (M, F) with rows
 * g F .. (g + 1) F - 1 of w (G F, H) and b (G F).  Rows from starts[G] on are not read; they are zero
 * in y and pre, and in dx. */
SR_SLOT(grouped_linear, OUT(y), OUT(pre), IN(x), IN(w), IN(b), IN(starts), VALUE(sr_act, act))
SR_SLOT(grouped_linear_backward, OUT(dx), OUT(dw), OUT(db), IN(dy), IN(x), IN(w), IN(pre), IN(y),
    IN(starts), VALUE(sr_act, act))

/* Packed self-attention, flash style: nothing of size len^2 is kept.
 * out (T, H), lse (A, T), qkv (T, (A + 2 K) D): [q heads | k heads | v heads] in a row; dropout has
 * the query head as the counter's.  The cost of a window is linear in the rows.
 * rows (M) i32, ascending, or NULL; only given to devices with `attends_rows`, which check them: only
 * these rows of sequences are queries: out (M, H), lse (A, M).  dqkv has zeros in q of the others.
 * dbias += the sums of dqkv over rows, of a bias that was added to qkv; NULL, and always where the
 * device does not `adds`. */
SR_SLOT(attention, OUT(out), OUT(lse), IN(qkv), IN(rows), LAYOUT(layout),
    VALUE(sr_attention_opts, opts))
SR_SLOT(attention_backward, OUT(dqkv), OUT(dbias), IN(dout), IN(qkv), IN(out), IN(lse), IN(rows),
    LAYOUT(layout), VALUE(sr_attention_opts, opts))

/* Rotary positions: in x and y (T, C) the first `heads` x D columns of each row are turned, by pairs
 * (j, j + D / 2) of a head, through the angles of a row of the table (positions, D), D / 2 cosines and
 * as many sines; the others are copied.  positions (T) i32, or NULL: those in the sequences; checked
 * here.  inverse: the other way, which is the backward.  Slack becomes zero.  y may have x's memory. */
SR_SLOT(rotary, OUT(y), IN(x), IN(table), IN(positions), LAYOUT(layout), VALUE(int, heads),
    VALUE(bool, inverse))

/* y (T, F) = act(a) g, where x (T, 2 F) is [a, g], or [g, a] with gate_first */
SR_SLOT(gated, OUT(y), IN(x), VALUE(sr_act, act), VALUE(bool, gate_first))
SR_SLOT(gated_backward, OUT(dx), IN(dy), IN(x), VALUE(sr_act, act), VALUE(bool, gate_first))

/* sum = dropout(x) + residual; y = (sum - mean) rstd gamma + beta.  All (T, H); mean, rstd (T).
 * mean is NULL for an RMS norm, in which it is 0.  residual and beta may be NULL; sum is NULL when
 * residual is NULL and nothing is dropped (x serves).  layout may be NULL when nothing is dropped. */
SR_SLOT(residual_norm, OUT(y), OUT(sum), OUT(mean), OUT(rstd), IN(x), IN(residual), IN(gamma),
    IN(beta), LAYOUT(layout), VALUE(double, eps), VALUE(sr_dropout, drop))
/* dx = , dresidual = , dgamma += , dbeta += ; each may be NULL.  dbias += the sums of dx over rows, of
 * a bias that was added to x; NULL, and always where the device does not `adds`.  dsum: a gradient
 * that the sum gets from elsewhere, or NULL */
SR_SLOT(residual_norm_backward, OUT(dx), OUT(dresidual), OUT(dgamma), OUT(dbeta), OUT(dbias), IN(dy),
    IN(dsum), IN(sum), IN(gamma), IN(mean), IN(rstd), LAYOUT(layout), VALUE(sr_dropout, drop))

/* sum = word[ids] + position[positions] + type[types]; y = dropout(norm(sum)).
 * ids, types, positions (T) i32; word (V, H), position (S, H), type (kinds, H).  position and type
 * may be NULL.  positions NULL: those in the sequences; types NULL: all 0.  gamma NULL: y =
 * dropout(sum), and sum, mean and rstd are NULL; beta and mean as above.  Slack is zero in y and sum
 * and its ids are not read; the ids of owned rows are checked here: SR_EINVAL names the row */
SR_SLOT(embed, OUT(y), OUT(sum), OUT(mean), OUT(rstd), IN(ids), IN(types), IN(positions), IN(word),
    IN(position), IN(type), IN(gamma), IN(beta), LAYOUT(layout), VALUE(double, eps),
    VALUE(sr_dropout, drop))
/* all += ; each may be NULL; slack rows add nothing */
SR_SLOT(embed_backward, OUT(dword), OUT(dposition), OUT(dtype), OUT(dgamma), OUT(dbeta), IN(dy),
    IN(ids), IN(types), IN(positions), IN(sum), IN(gamma), IN(mean), IN(rstd), LAYOUT(layout),
    VALUE(sr_dropout, drop))

/* y = dropout(x), (T, H) rows of the layout; its backward is itself on dy */
SR_SLOT(dropout, OUT(y), IN(x), LAYOUT(layout), VALUE(sr_dropout, drop))

/* y (N, K) = the mean of x (T, K) over the rows of each sequence of the layout, added in their order;
 * y is f32, or f64 */
SR_SLOT(sequence_mean, OUT(y), IN(x), LAYOUT(layout))
/* dx = dy of a row's sequence / its length; 0 in slack.  dx may be NULL */
SR_SLOT(sequence_mean_backward, OUT(dx), IN(dy), LAYOUT(layout))

/* Cross entropy of the tied decoder: logits = x (M, H) word (V, H)^T + bias (V), which may be NULL.
 * total (scalar) = sum of weights[m] nll[m]; nll (M); correct (M) 1 where the arg max is the
 * label (lowest index on a tie); dlogits (M, V) receives weights[m] (p - onehot), or is NULL
 * if no gradient is needed.  labels (M) i32, checked by the device: SR_EINVAL names the row;
 * weights (M) real.  M may be 0. */
SR_SLOT(mlm_loss, OUT(total), OUT(nll), OUT(correct), OUT(dlogits), IN(x), IN(word), IN(bias),
    IN(labels), IN(weights))
/* dx = dtotal dlogits word; dword += dtotal dlogits^T x; dbias += dtotal sum_m dlogits.
 * dtotal (scalar) is read on the device */
SR_SLOT(mlm_loss_backward, OUT(dx), OUT(dword), OUT(dbias), IN(dtotal), IN(dlogits), IN(x),
    IN(word))

/* The same loss on given logits (M, C): NSP, classification heads. */
SR_SLOT(cross_entropy, OUT(total), OUT(nll), OUT(correct), OUT(dlogits), IN(logits), IN(labels),
    IN(weights))

/* ids[m] = a class drawn from softmax(logits[m]), (M, C) real, C at least 1: the first at which the
 * running sum of the probabilities is above sr_sample_at() of keys[m], (M, 3) i32: position, uid,
 * epoch.  No gradient.  M may be 0. */
SR_SLOT(sample, OUT(ids), IN(logits), IN(keys), VALUE(uint64_t, seed))

/* ---- optimizer ------------------------------------------------------------------------ */
/* A step is grad_squares, grad_norm, moments unless it is AdamW, and step; where several devices
 * share the work, each takes its chunks, and squares and norms are exchanged in between.  Segments
 * and chunks are valid during the call only. */

/* squares[c] = sum of the squares of grad in chunk c, for c in [first, last); (chunks) f64 */
SR_SLOT(grad_squares, OUT(squares), IN(grad), VALUE(const sr_chunk *, chunks),
    VALUE(int64_t, first), VALUE(int64_t, last))
/* result[0] = root of the sum of squares (count) in order; result[1] = 1 when it is finite and
 * so is the loss (scalar, real), which may be NULL */
SR_SLOT(grad_norm, OUT(result), IN(squares), VALUE(int64_t, count), IN(loss))
/* Moves the moments of the chunks and sets their norms; nothing when result[1] is 0.
 * LAMB: norms = { w^2, u^2 }; StableAdamW: { g^2 / max(v, eps^2), 0 }.
 * Muon, of matrices only: m = momentum m + (1 - momentum) g; v = the direction, m, or with nesterov
 * (1 - momentum) g + momentum m; norms = { v^2, 0 }. */
SR_SLOT(moments, VALUE(const sr_step *, step))
/* Muon: v /= the norm of v over its matrix, from norms, or 1 where that is 0.  The caller then makes
 * it orthogonal (core/train/muon.h). */
SR_SLOT(directions, VALUE(const sr_step *, step))
/* One step of the chunks; leaves everything untouched when result[1] is 0.
 * AdamW: w -= rate (m^ / (sqrt(v^) + eps) + decay w).
 * LAMB: u = m^ / (sqrt(v^) + eps) + decay w; w -= rate ratio u, ratio = ||w|| / ||u|| for a
 * trust segment when both are above 0, else 1; the norms are summed over the segment's chunks.
 * StableAdamW: rate' = rate / max(1, root of the mean of g^2 / max(v, eps^2) over the segment);
 * w *= 1 - rate' decay; w -= rate' m / (sqrt(v) + eps).
 * Muon: of matrices w -= rate (scale v + decay w), of the others as AdamW.
 * With an average, a += share (w - a) after that, share by sr_step_share(); a = w where it is 1.
 * Source: Loshchilov and Hutter 2017, arXiv:1711.05101; You et al. 2019, arXiv:1904.00962;
 * Wortsman et al. 2023, arXiv:2304.13013; Jordan 2024, kellerjordan.github.io/posts/muon; the share:
 * bias correction of Kingma and Ba 2014, arXiv:1412.6980. */
SR_SLOT(step, VALUE(const sr_step *, step))

/* clang-format on */
#undef SR_SLOT
