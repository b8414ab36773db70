/* attention.c - self-attention within each sequence of a layout, forward and backward.
 *
 * Shapes   qkv, dqkv (T, (A + 2 K) D): a row is [q of A heads | k of K heads | v of K heads]
 *          out, dout (T, A D)    lse (A, T)    of M listed queries (M, A D) and (A, M)
 *
 * Query head a uses the key and value head a / (A / K), whose gradients are sums over such a.  For
 * one head of one sequence, with row indices i and j and Z the keyed dropout factor (0 or
 * r = 256 / keep); j runs over the rows that i sees: |i - j| <= window if there is one, and j <= i
 * if causal:
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

/* One query head of one sequence: pointers to its first row, and row strides. */
typedef struct head {
    const double *q, *k, *v;
    int64_t step;       /* (A + 2 K) D */
    int64_t size;       /* D */
    int64_t to_k, to_v; /* from q in a row */
    int32_t len, sequence;
    int number;
    const sr_layout *layout;
    const sr_attention_opts *opts;
} head;

static head head_of(const sr_tensor *qkv, const sr_layout *layout, int32_t s, int number,
                    const sr_attention_opts *o) {
    int64_t step = qkv->shape[1], size = step / (o->heads + 2 * (int64_t)o->kv_heads);
    int64_t shared = number / (o->heads / o->kv_heads);
    int64_t to_k = (o->heads + shared - number) * size, to_v = to_k + o->kv_heads * size;
    const double *first = SR_DATA(double, qkv) + layout->start[s] * step + number * size;
    return (head){.q = first,
                  .k = first + to_k,
                  .v = first + to_v,
                  .step = step,
                  .size = size,
                  .to_k = to_k,
                  .to_v = to_v,
                  .len = layout->len[s],
                  .sequence = s,
                  .number = number,
                  .layout = layout,
                  .opts = o};
}

/* The rows that row i sees: from <= j < to. */
static int32_t seen_from(const head *h, int32_t i) {
    int64_t window = h->opts->window;
    return window >= 0 && window < i ? (int32_t)(i - window) : 0;
}
static int32_t seen_to(const head *h, int32_t i) {
    int64_t window = h->opts->window;
    if (h->opts->causal) return i + 1;
    return window >= 0 && window < h->len - 1 - i ? (int32_t)(i + window + 1) : h->len;
}

/* Whose result is row m of out: row m, or that of a list.  -1: slack. */
static int64_t query_of(const sr_tensor *rows, const sr_layout *layout, int64_t m) {
    int64_t r = rows != NULL ? SR_DATA(const int32_t, rows)[m] : m;
    return layout->owner[r] < 0 ? -1 : r;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double score(const head *h, int32_t i, int32_t j) {
    return h->opts->scale * dot(h->q + i * h->step, h->k + j * h->step, h->size);
}

static double kept(const head *h, int32_t i, int32_t j) {
    return ref_drop(h->layout, h->sequence, h->opts->drop, i, j, h->number);
}

static double log_sum_exp(const head *h, int32_t i) {
    double most = -INFINITY, sum = 0;
    int32_t from = seen_from(h, i), to = seen_to(h, i);
    for (int32_t j = from; j < to; j++) {
        double s = score(h, i, j);
        if (s > most || isnan(s)) most = s;
    }
    for (int32_t j = from; j < to; j++) sum += exp(score(h, i, j) - most);
    return most + log(sum);
}

static void forward_row(const head *h, double *out, double *lse, int32_t i) {
    *lse = log_sum_exp(h, i);
    for (int64_t d = 0; d < h->size; d++) out[d] = 0;
    int32_t to = seen_to(h, i);
    for (int32_t j = seen_from(h, i); j < to; j++) {
        double z = kept(h, i, j);
        if (z == 0) continue;
        double p = exp(score(h, i, j) - *lse);
        for (int64_t d = 0; d < h->size; d++) out[d] += z * p * h->v[j * h->step + d];
    }
}

static sr_status check_queries(const sr_tensor *rows, const sr_layout *layout) {
    if (rows == NULL) return SR_OK;
    return sr_layout_check_rows("attention", layout, SR_DATA(const int32_t, rows), rows->shape[0]);
}

sr_status ref_attention(sr_tensor *out, sr_tensor *lse, const sr_tensor *qkv, const sr_tensor *rows,
                        const sr_layout *layout, sr_attention_opts opts) {
    int64_t hidden = out->shape[1], queries = out->shape[0];
    SR_TRY(check_queries(rows, layout));
    SR_TRY(ref_fill(out, 0));
    SR_TRY(ref_fill(lse, 0));
    for (int64_t m = 0; m < queries; m++) {
        int64_t row = query_of(rows, layout, m);
        for (int a = 0; row >= 0 && a < opts.heads; a++) {
            SR_TRY(ref_poll("attention"));
            head h = head_of(qkv, layout, layout->owner[row], a, &opts);
            forward_row(&h, SR_DATA(double, out) + m * hidden + a * h.size,
                        SR_DATA(double, lse) + a * queries + m, layout->position[row]);
        }
    }
    return SR_OK;
}

/* Adds the contributions of query row i to dq_i and all dk_j, dv_j; d* point to the head's first
 * row. */
static void backward_row(const head *h, double *dq, double *dk, double *dv, const double *dout,
                         const double *out, double lse, int32_t i) {
    double delta = dot(dout, out, h->size), scale = h->opts->scale;
    int32_t to = seen_to(h, i);
    for (int32_t j = seen_from(h, i); j < to; j++) {
        const double *k = h->k + j * h->step, *v = h->v + j * h->step, *q = h->q + i * h->step;
        double z = kept(h, i, j), p = exp(score(h, i, j) - lse);
        double ds = p * ((z != 0 ? z * dot(dout, v, h->size) : 0.0) - delta);
        for (int64_t d = 0; d < h->size; d++) {
            dv[j * h->step + d] += z * p * dout[d];
            dq[i * h->step + d] += scale * ds * k[d];
            dk[j * h->step + d] += scale * ds * q[d];
        }
    }
}

static void add_rows(sr_tensor *sums, const sr_tensor *x) {
    int64_t columns = x->shape[1];
    for (int64_t i = 0; i < x->shape[0] * columns; i++)
        SR_DATA(double, sums)[i % columns] += SR_DATA(double, x)[i];
}

sr_status ref_attention_backward(sr_tensor *dqkv, sr_tensor *dbias, const sr_tensor *dout,
                                 const sr_tensor *qkv, const sr_tensor *out, const sr_tensor *lse,
                                 const sr_tensor *rows, const sr_layout *layout,
                                 sr_attention_opts opts) {
    int64_t hidden = out->shape[1], queries = out->shape[0];
    SR_TRY(check_queries(rows, layout));
    SR_TRY(ref_fill(dqkv, 0));
    for (int64_t m = 0; m < queries; m++) {
        int64_t row = query_of(rows, layout, m);
        for (int a = 0; row >= 0 && a < opts.heads; a++) {
            SR_TRY(ref_poll("attention"));
            head h = head_of(qkv, layout, layout->owner[row], a, &opts);
            int64_t at = m * hidden + a * h.size;
            double *dq =
                SR_DATA(double, dqkv) + (row - layout->position[row]) * h.step + a * h.size;
            backward_row(&h, dq, dq + h.to_k, dq + h.to_v, SR_DATA(double, dout) + at,
                         SR_DATA(double, out) + at, SR_DATA(double, lse)[a * queries + m],
                         layout->position[row]);
        }
    }
    if (dbias != NULL) add_rows(dbias, dqkv);
    return SR_OK;
}
