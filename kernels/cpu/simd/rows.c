/* rows.c - kernels on whole rows: softmax, cross entropy, dropout, norms.
 *
 * Traffic   a row stays in the first-level cache between the passes, so memory sees each operand
 *           once: norm 4 H elements forward (x, residual, sum, y) and 4 H backward.
 * Numerics  maximum first, then f32 lane sums in a fixed order; the variance is a second pass over
 *           (x - mean).  Cross entropy sums in f64 over stretches, since V is large.
 */
#include "kernels/cpu/simd/bf16.h"
#include "kernels/cpu/simd/keys.h"
#include "kernels/cpu/simd/math.h"

#define EACH(n) for (int64_t i = 0; i < (n); i += VL)

static float row_maximum(const float *x, int64_t n) {
    vf m = v_set(-INFINITY);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) m = v_max(m, v_load(x + i));
    float most = v_highest(m);
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* y = exp(x - most); returns their sum. */
static float exponentials(float *y, const float *x, int64_t n, float most) {
    vf sum = v_zero(), m = v_set(most);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf e = v_exp_falling(v_load(x + i) - m);
        v_store(y + i, e);
        sum += e;
    }
    if (i < n) {
        vf e = v_keep(v_first((int)(n - i)), v_exp_falling(v_load_n(x + i, (int)(n - i)) - m));
        v_store_n(y + i, e, (int)(n - i));
        sum += e;
    }
    return v_sum(sum);
}

void SR_SIMD(softmax_row)(float *y, const float *x, int64_t n, bool log) {
    float most = row_maximum(x, n);
    if (log) {
        double sum = 0;
        UNSET float part[512];
        for (int64_t i = 0; i < n; i += 512)
            sum += exponentials(part, x + i, n - i < 512 ? n - i : 512, most);
        vf shift = v_set((float)(most + logf((float)sum)));
        EACH(n) v_put(y, i, n, v_at(x, i, n) - shift);
        return;
    }
    vf scale = v_set(1.0f / exponentials(y, x, n, most));
    EACH(n) v_put(y, i, n, v_at(y, i, n) * scale);
}

void SR_SIMD(softmax_row_backward)(float *dx, const float *dy, const float *y, int64_t n,
                                   bool log) {
    vf s = v_zero();
    EACH(n) s += log ? v_at(dy, i, n) : v_at(dy, i, n) * v_at(y, i, n);
    vf sum = v_set(v_sum(s));
    if (log) {
        EACH(n) v_put(dx, i, n, v_sub_product(v_at(dy, i, n), v_exp(v_at(y, i, n)), sum));
    } else {
        EACH(n) v_put(dx, i, n, v_at(y, i, n) * (v_at(dy, i, n) - sum));
    }
}

float SR_SIMD(entropy_row)(float *x, int64_t n, int64_t label, float weight, bool grad,
                           int64_t *best) {
    enum { PART = 1024 };
    UNSET float room[PART];
    float most = row_maximum(x, n), target = x[label];
    *best = -1;
    for (int64_t i = 0; i < n && *best < 0; i++)
        if (x[i] == most) *best = i;
    double sum = 0;
    for (int64_t from = 0; from < n; from += PART) {
        int64_t some = n - from < PART ? n - from : PART;
        sum += exponentials(grad ? x + from : room, x + from, some, most);
    }
    if (grad) {
        vf scale = v_set((float)(weight / sum));
        EACH(n) v_put(x, i, n, v_at(x, i, n) * scale);
        x[label] -= weight;
    }
    return (float)(log(sum) + most - target);
}

/* x += bias; returns the maximum. */
static float add_bias(float *x, const float *bias, int64_t n) {
    vf most = v_set(-INFINITY);
    EACH(n) {
        vf y = v_at(x, i, n) + v_at(bias, i, n);
        v_put(x, i, n, y);
        if (n - i < VL) y = v_select(v_first((int)(n - i)), y, most);
        most = v_max(most, y);
    }
    return v_highest(most);
}

INLINE float store_exponentials(void *e, const float *x, int64_t n, float most, const bool low) {
    vf sum = v_zero(), shift = v_set(most);
    EACH(n) {
        vf y = v_exp2_falling((v_at(x, i, n) - shift) * v_set(LOG2_E), low);
        if (n - i < VL) y = v_keep(v_first((int)(n - i)), y);
        if (e != NULL && low) h_put(e, i, n, v_to_bf16_flushed(y));
        if (e != NULL && !low) v_put(e, i, n, y);
        sum += y;
    }
    return v_sum(sum);
}

float SR_SIMD(exponentials)(void *e, bool bf16, float *x, const float *bias, int64_t n,
                            float *most) {
    *most = add_bias(x, bias, n);
    return bf16 ? store_exponentials(e, x, n, *most, true)
                : store_exponentials(e, x, n, *most, false);
}

void SR_SIMD(scale_bf16)(sr_bf16 *x, int64_t n, float factor) {
    vf f = v_set(factor);
    EACH(n) h_put(x, i, n, v_to_bf16_flushed(v_from_bf16(h_at(x, i, n)) * f));
}

/* ---- dropout -------------------------------------------------------------------------------- */

static void draw_row(uint32_t *words, const sr_key *key, int64_t row, int64_t n) {
    drop_words(words, sr_drop_room(n) / 4, key, NULL, row, 1, 0, drop_groups(n));
}

/* x, from column i on, through the dropout whose draws of the row are `words`. */
INLINE vf dropped(vf x, const uint32_t *words, int64_t stride, int64_t i, uint32_t keep, vf scale) {
    return v_keep(drop_kept(words, stride, i, keep), x * scale);
}

void SR_SIMD(drop_row)(float *y, const float *x, int64_t n, const sr_key *key, int64_t row,
                       uint32_t *words) {
    draw_row(words, key, row, n);
    vf scale = v_set(256.0f / (float)key->keep);
    int64_t stride = sr_drop_room(n) / 4;
    uint32_t keep = key->keep;
    EACH(n) v_put(y, i, n, dropped(v_at(x, i, n), words, stride, i, keep, scale));
}

/* ---- norm ------------------------------------------------------------------------------------ */

/* A local copy of a row's description, whose fields stay in registers while the row is written. */
#define LOCAL(type, name, from) const type name = *(from)

/* Elements of a row that is declared as floats but may hold whole vectors of bf16. */
INLINE vf row_at(const float *x, int64_t i, int64_t n, const bool bf16) {
    return bf16 ? v_from_bf16(h_load((const sr_bf16 *)x + i)) : v_at(x, i, n);
}
INLINE void row_put(float *y, int64_t i, int64_t n, vf v, const bool bf16) {
    if (!bf16) {
        v_put(y, i, n, v);
        return;
    }
    vh h = v_to_bf16(v);
    memcpy((sr_bf16 *)y + i, &h, sizeof h);
}

/* sum = dropout(x) + residual, kept unrounded in `room` if rows are bf16; returns its total. */
INLINE float add_row(const sr_norm_row *row, const bool bf16) {
    LOCAL(sr_norm_row, r, row);
    uint32_t keep = r.key != NULL ? r.key->keep : 256;
    int64_t stride = sr_drop_room(r.n) / 4;
    vf total = v_zero(), scale = v_set(256.0f / (float)keep);
    if (r.key != NULL) draw_row(r.words, r.key, r.row, r.n);
    EACH(r.n) {
        vf x = row_at(r.x, i, r.n, bf16);
        if (r.key != NULL) x = dropped(x, r.words, stride, i, keep, scale);
        if (r.residual != NULL) x += row_at(r.residual, i, r.n, bf16);
        if (r.sum != NULL) row_put(r.sum, i, r.n, x, bf16);
        if (bf16) v_put(r.room, i, r.n, x);
        total += x;
    }
    return v_sum(total);
}

INLINE void norm_row(sr_norm_row *row, const bool bf16) {
    float total = add_row(row, bf16), mean = row->rms ? 0.0f : total / (float)row->n;
    LOCAL(sr_norm_row, r, row);
    const float *sum = bf16 ? r.room : r.sum != NULL ? r.sum : r.x;
    vf m = v_set(mean), squares = v_zero();
    EACH(r.n) {
        vf d = v_at(sum, i, r.n) - m;
        if (r.n - i < VL) d = v_keep(v_first((int)(r.n - i)), d);
        squares = v_fma(d, d, squares);
    }
    float variance = v_sum(squares) / (float)r.n + r.eps;
    float rstd = variance == 0.0f ? 0.0f : 1.0f / sqrtf(variance); /* ref/norm.c: NaN stays NaN */
    vf s = v_set(rstd);
    EACH(r.n) {
        vf hat = (v_at(sum, i, r.n) - m) * s;
        vf beta = r.beta != NULL ? v_at(r.beta, i, r.n) : v_zero();
        row_put(r.y, i, r.n, v_fma(hat, v_at(r.gamma, i, r.n), beta), bf16);
    }
    row->mean = mean;
    row->rstd = rstd;
}

void SR_SIMD(norm_row)(sr_norm_row *row) {
    row->room != NULL ? norm_row(row, true) : norm_row(row, false);
}

/* dgamma += dy hat, dbeta += dy; *mean_g and *mean_gh are those of g and g hat. */
INLINE void norm_sums(const sr_norm_back *row, vf *mean_g, vf *mean_gh, const bool bf16) {
    LOCAL(sr_norm_back, r, row);
    vf m = v_set(r.mean), s = v_set(r.rstd), g_sum = v_zero(), gh_sum = v_zero();
    EACH(r.n) { /* dy = 0 in lanes beyond n */
        vf hat = (row_at(r.sum, i, r.n, bf16) - m) * s, dy = row_at(r.dy, i, r.n, bf16);
        vf g = dy * v_at(r.gamma, i, r.n);
        g_sum += g;
        gh_sum = v_fma(g, hat, gh_sum);
        if (r.dgamma != NULL) v_put(r.dgamma, i, r.n, v_fma(dy, hat, v_at(r.dgamma, i, r.n)));
        if (r.dbeta != NULL) v_put(r.dbeta, i, r.n, dy + v_at(r.dbeta, i, r.n));
    }
    *mean_g = v_set(r.rms ? 0.0f : v_sum(g_sum) / (float)r.n);
    *mean_gh = v_set(v_sum(gh_sum) / (float)r.n);
}

/* With g = dy gamma and hat = (sum - mean) rstd:
 * dsum = rstd (g - mean(g) - hat mean(g hat)) + more; an RMS norm has no mean(g). */
INLINE void norm_back(const sr_norm_back *row, const bool bf16) {
    LOCAL(sr_norm_back, r, row);
    vf m = v_set(r.mean), s = v_set(r.rstd), mean_g, mean_gh;
    norm_sums(row, &mean_g, &mean_gh, bf16);
    if (r.dsum == NULL && r.dx == NULL) return;
    uint32_t keep = r.key != NULL ? r.key->keep : 256;
    int64_t stride = sr_drop_room(r.n) / 4;
    vf scale = v_set(256.0f / (float)keep);
    if (r.key != NULL) draw_row(r.words, r.key, r.row, r.n);
    EACH(r.n) {
        vf hat = (row_at(r.sum, i, r.n, bf16) - m) * s;
        vf g = row_at(r.dy, i, r.n, bf16) * v_at(r.gamma, i, r.n);
        vf d = s * v_sub_product(g - mean_g, hat, mean_gh);
        if (r.more != NULL) d += row_at(r.more, i, r.n, bf16);
        if (r.dsum != NULL) row_put(r.dsum, i, r.n, d, bf16);
        if (r.key != NULL) d = dropped(d, r.words, stride, i, keep, scale);
        if (r.dx != NULL) row_put(r.dx, i, r.n, d, bf16);
    }
}

void SR_SIMD(norm_row_backward)(const sr_norm_back *row) {
    row->bf16 ? norm_back(row, true) : norm_back(row, false);
}
