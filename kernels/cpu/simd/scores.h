/* scores.h - what attention does to a row of scores between its products: softmax with dropout, and
 * its slopes.
 *
 * Rows are readable and writable up to a full vector.  `words` are the draws of the row, words[w *
 * stride + group] as in keys.h.  With `low` the results are rounded to bf16; sums are of values
 * that are not.
 */
#ifndef SR_CPU_SCORES_H
#define SR_CPU_SCORES_H

#include "kernels/cpu/simd/keys.h"
#include "kernels/cpu/simd/math.h"

typedef struct score_rule {
    sr_key key;
    int64_t stride; /* of words */
    bool low;
} score_rule;

INLINE vf round_low(vf x, bool low) {
    return low ? v_rounded(x) : x;
}

INLINE vm lanes_below(int64_t n, int64_t i) {
    return v_first(n - i < VL ? (int)(n - i) : VL);
}

/* p = exp(p - maximum), with dropout, of ROWS rows: their chains hide each other's latency. most[r]
 * gets the maximum, sum[r] the sum before dropout; words of a row are `groups` apart. */
INLINE void exp_rows(float *p, int64_t ld, int64_t n, const score_rule *rule, const uint32_t *words,
                     int64_t groups, const int rows, float *most, float *sum) {
    enum { ROWS = 4 };
    vf shift[ROWS], total[ROWS];
    for (int r = 0; r < rows; r++) shift[r] = v_set(-INFINITY), total[r] = v_zero();
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        for (int r = 0; r < rows; r++) shift[r] = v_max(shift[r], v_load(p + r * ld + i));
    for (int r = 0; r < rows; r++) {
        const vf last = v_set(-INFINITY);
        if (i < n)
            shift[r] = v_max(shift[r], v_select(lanes_below(n, i), v_load(p + r * ld + i), last));
        most[r] = v_highest(shift[r]);
        shift[r] = v_set(most[r]);
    }
    for (i = 0; i < n; i += VL)
        for (int r = 0; r < rows; r++) {
            vf e = v_exp_falling(v_load(p + r * ld + i) - shift[r]);
            if (n - i < VL) e = v_keep(lanes_below(n, i), e);
            total[r] += e;
            if (rule->key.keep < 256)
                e = v_keep(drop_kept(words + r * groups, rule->stride, i, rule->key.keep), e);
            v_store(p + r * ld + i, round_low(e, rule->low));
        }
    for (int r = 0; r < rows; r++) sum[r] = v_sum(total[r]);
}

/* Softmax with dropout of `rows` rows (at most MOST_ROWS), but for the factors of rows. */
enum { MOST_ROWS = 64 };
INLINE void softmax_in_place(float *p, int64_t ld, int64_t n, int64_t rows, const score_rule *rule,
                             const uint32_t *words, int64_t groups, float *lse, float *factor) {
    float most[MOST_ROWS], sum[MOST_ROWS], keep_scale = 256.0f / (float)rule->key.keep;
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4)
        exp_rows(p + i * ld, ld, n, rule, words + i * groups, groups, 4, most + i, sum + i);
    for (; i < rows; i++)
        exp_rows(p + i * ld, ld, n, rule, words + i * groups, groups, 1, most + i, sum + i);
    for (i = 0; i < rows; i++) {
        lse[i] = most[i] + logf(sum[i]);
        factor[i] = keep_scale / sum[i];
    }
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    vf s = v_zero();
    for (int64_t i = 0; i < n; i += VL) s = v_fma(v_at(a, i, n), v_at(b, i, n), s);
    return v_sum(s);
}

/* On entry s has the scores and ds dP; on return Z r P and dS. */
INLINE void slopes(float *s, float *ds, int64_t n, float lse, float delta, const score_rule *rule,
                   const uint32_t *words) {
    uint32_t keep = rule->key.keep;
    vf shift = v_set(lse), minus = v_set(delta), scale = v_set(256.0f / (float)keep);
    for (int64_t i = 0; i < n; i += VL) {
        vf p = v_exp(v_load(s + i) - shift), dp = v_load(ds + i);
        if (n - i < VL) p = v_keep(lanes_below(n, i), p);
        vf dropped = p;
        if (keep < 256) {
            vm kept = drop_kept(words, rule->stride, i, keep);
            dropped = v_keep(kept, p * scale);
            dp = v_keep(kept, dp * scale);
        }
        v_store(s + i, round_low(dropped, rule->low));
        v_store(ds + i, round_low(p * (dp - minus), rule->low));
    }
}

#endif
