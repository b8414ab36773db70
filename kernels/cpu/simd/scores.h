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

/* p = exp(p - maximum), with dropout; returns lse, *sum gets the sum before dropout. */
INLINE float softmax_in_place(float *p, int64_t n, const score_rule *rule, const uint32_t *words,
                              float *sum) {
    vf most = v_set(-INFINITY), total = v_zero();
    int64_t i = 0;
    for (; i + VL <= n; i += VL) most = v_max(most, v_load(p + i));
    if (i < n) most = v_max(most, v_select(lanes_below(n, i), v_load(p + i), v_set(-INFINITY)));
    float m = v_highest(most);
    vf shift = v_set(m);
    for (i = 0; i < n; i += VL) {
        vf e = v_exp_falling(v_load(p + i) - shift);
        if (n - i < VL) e = v_keep(lanes_below(n, i), e);
        total += e;
        if (rule->key.keep < 256) e = v_keep(drop_kept(words, rule->stride, i, rule->key.keep), e);
        v_store(p + i, round_low(e, rule->low));
    }
    *sum = v_sum(total);
    return m + logf(*sum);
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
