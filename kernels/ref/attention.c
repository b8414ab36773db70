/* attention.c - self-attention within each sequence of a layout, forward and backward.
 *
 * Shapes   qkv, dqkv (T, 3 H): a row is [q of A heads | k of A heads | v of A heads]
 *          out, dout (T, H)    lse (A, T)
 *
 * For one head of one sequence, with row indices i and j and Z the keyed dropout factor (0 or
 * r = 256 / keep):
 *
 *   s_ij   = scale <q_i, k_j>          lse_i = log sum_j exp(s_ij)       p_ij = exp(s_ij - lse_i)
 *   o_i    = sum_j Z_ij p_ij v_j       (lse and p are those of the softmax without dropout)
 *
 *   delta_i = <do_i, o_i>
 *   dv_j   = sum_i Z_ij p_ij do_i
 *   ds_ij  = p_ij (Z_ij <do_i, v_j> - delta_i)
 *   dq_i   = scale sum_j ds_ij k_j     dk_j = scale sum_i ds_ij q_i
 *
 * Slack rows of out, lse and dqkv are zero.
 */
#include <math.h>

#include "kernels/ref/ref.h"

/* One head of one sequence: pointers to its first row, and row strides. */
typedef struct head {
    const double *q, *k, *v;
    int64_t step; /* 3 H */
    int64_t size; /* D */
    int32_t len, sequence;
    int number;
    double scale;
    const sr_layout *layout;
    sr_dropout drop;
} head;

static head head_of(const sr_tensor *qkv, const sr_layout *layout, int32_t s, int number, int heads,
                    double scale, sr_dropout drop) {
    int64_t hidden = qkv->shape[1] / 3, size = hidden / heads;
    const double *first = SR_DATA(double, qkv) + layout->start[s] * 3 * hidden + number * size;
    return (head){.q = first,
                  .k = first + hidden,
                  .v = first + 2 * hidden,
                  .step = 3 * hidden,
                  .size = size,
                  .len = layout->len[s],
                  .sequence = s,
                  .number = number,
                  .scale = scale,
                  .layout = layout,
                  .drop = drop};
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double score(const head *h, int32_t i, int32_t j) {
    return h->scale * dot(h->q + i * h->step, h->k + j * h->step, h->size);
}

static double kept(const head *h, int32_t i, int32_t j) {
    return ref_drop(h->layout, h->sequence, h->drop, i, j, h->number);
}

static double log_sum_exp(const head *h, int32_t i) {
    double most = -INFINITY, sum = 0;
    for (int32_t j = 0; j < h->len; j++) {
        double s = score(h, i, j);
        if (s > most || isnan(s)) most = s;
    }
    for (int32_t j = 0; j < h->len; j++) sum += exp(score(h, i, j) - most);
    return most + log(sum);
}

static void forward_row(const head *h, double *out, double *lse, int32_t i) {
    *lse = log_sum_exp(h, i);
    for (int64_t d = 0; d < h->size; d++) out[d] = 0;
    for (int32_t j = 0; j < h->len; j++) {
        double z = kept(h, i, j);
        if (z == 0) continue;
        double p = exp(score(h, i, j) - *lse);
        for (int64_t d = 0; d < h->size; d++) out[d] += z * p * h->v[j * h->step + d];
    }
}

sr_status ref_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                        const sr_layout *layout, int heads, double scale, sr_dropout drop) {
    int64_t hidden = qkv->shape[1] / 3, rows = qkv->shape[0];
    SR_TRY(ref_fill(out, 0));
    SR_TRY(ref_fill(lse, 0));
    for (int32_t s = 0; s < layout->sequences; s++) {
        for (int a = 0; a < heads; a++) {
            head h = head_of(qkv, layout, s, a, heads, scale, drop);
            for (int32_t i = 0; i < h.len; i++) {
                SR_TRY(ref_poll("attention"));
                int64_t row = layout->start[s] + i;
                forward_row(&h, SR_DATA(double, out) + row * hidden + a * h.size,
                            SR_DATA(double, lse) + a * rows + row, i);
            }
        }
    }
    return SR_OK;
}

/* Adds the contributions of query row i to dq_i and all dk_j, dv_j; d* point to the head's first
 * row. */
static void backward_row(const head *h, double *dq, double *dk, double *dv, const double *dout,
                         const double *out, double lse, int32_t i) {
    double delta = dot(dout, out, h->size);
    for (int32_t j = 0; j < h->len; j++) {
        const double *k = h->k + j * h->step, *v = h->v + j * h->step, *q = h->q + i * h->step;
        double z = kept(h, i, j), p = exp(score(h, i, j) - lse);
        double ds = p * ((z != 0 ? z * dot(dout, v, h->size) : 0.0) - delta);
        for (int64_t d = 0; d < h->size; d++) {
            dv[j * h->step + d] += z * p * dout[d];
            dq[i * h->step + d] += h->scale * ds * k[d];
            dk[j * h->step + d] += h->scale * ds * q[d];
        }
    }
}

sr_status ref_attention_backward(sr_tensor *dqkv, const sr_tensor *dout, const sr_tensor *qkv,
                                 const sr_tensor *out, const sr_tensor *lse,
                                 const sr_layout *layout, int heads, double scale,
                                 sr_dropout drop) {
    int64_t hidden = qkv->shape[1] / 3, rows = qkv->shape[0];
    SR_TRY(ref_fill(dqkv, 0));
    for (int32_t s = 0; s < layout->sequences; s++) {
        for (int a = 0; a < heads; a++) {
            head h = head_of(qkv, layout, s, a, heads, scale, drop);
            double *dq = SR_DATA(double, dqkv) + layout->start[s] * h.step + a * h.size;
            for (int32_t i = 0; i < h.len; i++) {
                SR_TRY(ref_poll("attention"));
                int64_t row = layout->start[s] + i, at = row * hidden + a * h.size;
                backward_row(&h, dq, dq + hidden, dq + 2 * hidden, SR_DATA(double, dout) + at,
                             SR_DATA(double, out) + at, SR_DATA(double, lse)[a * rows + row], i);
            }
        }
    }
    return SR_OK;
}
