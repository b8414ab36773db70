/* attention.c - packed self-attention, one sequence, head and query at a time.
 *
 *   s_ij = scale <q_i, k_j>      lse_i = log sum_j exp(s_ij)      p_ij = exp(s_ij - lse_i)
 *   o_i  = sum_j z_ij p_ij v_j   with z_ij the dropout factor, 0 or 256 / keep
 *
 *   delta_i = <do_i, o_i>        ds_ij = p_ij (z_ij <do_i, v_j> - delta_i)
 *   dv_j = sum_i z_ij p_ij do_i  dk_j = scale sum_i ds_ij q_i  dq_i = scale sum_j ds_ij k_j
 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ref/ref.h"

/* One sequence and head: where its rows start, and how the row of a token is laid out. */
typedef struct unit {
    const sr_layout *layout;
    int32_t sequence;
    int head;
    int64_t start, len, hidden, size; /* hidden = heads x size */
    double scale;
    sr_dropout drop;
} unit;

/* The part of row i that is this head's; `part` 0 query, 1 key, 2 value. */
static double *qkv_at(const unit *u, const sr_tensor *qkv, int64_t i, int part) {
    return SR_DATA(double, qkv) + (u->start + i) * 3 * u->hidden + part * u->hidden +
           u->head * u->size;
}

static double *out_at(const unit *u, const sr_tensor *out, int64_t i) {
    return SR_DATA(double, out) + (u->start + i) * u->hidden + u->head * u->size;
}

static double *lse_at(const unit *u, const sr_tensor *lse, int64_t i) {
    return SR_DATA(double, lse) + u->head * u->layout->rows + u->start + i;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t d = 0; d < n; d++) sum += a[d] * b[d];
    return sum;
}

static void add_scaled(double *y, double a, const double *x, int64_t n) {
    for (int64_t d = 0; d < n; d++) y[d] += a * x[d];
}

static void forward_row(const unit *u, sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                        int64_t i, double *score) {
    const double *q = qkv_at(u, qkv, i, 0);
    double most = -INFINITY, sum = 0, *o = out_at(u, out, i);
    for (int64_t j = 0; j < u->len; j++) {
        score[j] = u->scale * dot(q, qkv_at(u, qkv, j, 1), u->size);
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < u->len; j++) sum += exp(score[j] - most);
    *lse_at(u, lse, i) = most + log(sum);
    for (int64_t j = 0; j < u->len; j++) {
        double z = ref_drop(u->layout, u->sequence, u->drop, i, j, u->head);
        add_scaled(o, z * exp(score[j] - most) / sum, qkv_at(u, qkv, j, 2), u->size);
    }
}

static void backward_row(const unit *u, sr_tensor *dqkv, const sr_tensor *dout,
                         const sr_tensor *qkv, const sr_tensor *out, const sr_tensor *lse,
                         int64_t i) {
    const double *q = qkv_at(u, qkv, i, 0), *d_o = out_at(u, dout, i);
    double delta = dot(d_o, out_at(u, out, i), u->size);
    for (int64_t j = 0; j < u->len; j++) {
        const double *k = qkv_at(u, qkv, j, 1);
        double p = exp(u->scale * dot(q, k, u->size) - *lse_at(u, lse, i));
        double z = ref_drop(u->layout, u->sequence, u->drop, i, j, u->head);
        double ds = p * (z * dot(d_o, qkv_at(u, qkv, j, 2), u->size) - delta);
        add_scaled(qkv_at(u, dqkv, i, 0), u->scale * ds, k, u->size);
        add_scaled(qkv_at(u, dqkv, j, 1), u->scale * ds, q, u->size);
        add_scaled(qkv_at(u, dqkv, j, 2), z * p, d_o, u->size);
    }
}

static unit unit_of(const sr_layout *layout, int32_t s, int head, int heads, int64_t hidden,
                    double scale, sr_dropout drop) {
    return (unit){.layout = layout,
                  .sequence = s,
                  .head = head,
                  .start = layout->start[s],
                  .len = layout->len[s],
                  .hidden = hidden,
                  .size = hidden / heads,
                  .scale = scale,
                  .drop = drop};
}

sr_status ref_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv,
                        const sr_layout *layout, int heads, double scale, sr_dropout drop) {
    int64_t hidden = out->shape[1];
    double *score;
    SR_TRY(sr_new(&score, layout->longest + 1));
    memset(sr_tensor_data(out), 0, (size_t)(layout->rows * hidden) * sizeof(double));
    memset(sr_tensor_data(lse), 0, (size_t)(layout->rows * heads) * sizeof(double));
    for (int32_t s = 0; s < layout->sequences; s++) {
        for (int head = 0; head < heads; head++) {
            unit u = unit_of(layout, s, head, heads, hidden, scale, drop);
            for (int64_t i = 0; i < u.len; i++) forward_row(&u, out, lse, qkv, i, score);
        }
    }
    sr_free(score);
    return SR_OK;
}

sr_status ref_attention_backward(sr_tensor *dqkv, const sr_tensor *dout, const sr_tensor *qkv,
                                 const sr_tensor *out, const sr_tensor *lse,
                                 const sr_layout *layout, int heads, double scale,
                                 sr_dropout drop) {
    int64_t hidden = out->shape[1];
    memset(sr_tensor_data(dqkv), 0, (size_t)(layout->rows * 3 * hidden) * sizeof(double));
    for (int32_t s = 0; s < layout->sequences; s++) {
        for (int head = 0; head < heads; head++) {
            unit u = unit_of(layout, s, head, heads, hidden, scale, drop);
            for (int64_t i = 0; i < u.len; i++) backward_row(&u, dqkv, dout, qkv, out, lse, i);
        }
    }
    return SR_OK;
}
