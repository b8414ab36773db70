/* scores.h - what attention does to a row of scores between its products: softmax with dropout, and
 * its derivatives.
 *
 * Rows are readable and writable up to a full vector.  `words` are the draws of the row, words[w *
 * stride + group] as in keys.h.  With `bf16` the results are rounded to bf16, and stay where they
 * are or go to rows of bf16; sums are of values that are not rounded.
 */
#ifndef SR_CPU_SCORES_H
#define SR_CPU_SCORES_H

#include "kernels/cpu/simd/keys.h"
#include "kernels/cpu/simd/bf16.h"
#include "kernels/cpu/simd/math.h"

typedef struct score_rule {
    sr_key key;
    int64_t stride; /* of words */
    bool bf16;
    float scale;   /* of scores that become rows of bf16; it is in the others already */
    int64_t shift; /* of column 0 from the first column of the words: a multiple of 16 below 64 */
} score_rule;

/* ---- what a row sees ------------------------------------------------------------------------- */

/* Columns from .. to - 1 of the scores of some rows.  They begin at a multiple of EDGE, where a
 * part of any panel may begin, and end at one or at n. */
typedef struct span {
    int64_t from, to;
} span;

enum { EDGE = BF16_K > 16 ? BF16_K : 16 };

/* All that rows row .. row + rows - 1 of a unit of n see, at most `before` back and `after` on. */
INLINE span span_of(int64_t n, int64_t row, int64_t rows, int64_t before, int64_t after) {
    int64_t from = row > before ? (row - before) / EDGE * EDGE : 0;
    int64_t to = (row + rows + after + EDGE - 1) / EDGE * EDGE;
    return (span){from, to < n ? to : n};
}

/* The largest span of as many rows. */
INLINE int64_t span_most(int64_t n, int64_t rows, int64_t before, int64_t after) {
    int64_t most = rows + before + after + 2 * EDGE;
    return most < n ? most : n;
}

/* The columns of `c` that are in a block, possibly none. */
INLINE span span_in(span c, span block) {
    span s = {c.from > block.from ? c.from : block.from, c.to < block.to ? c.to : block.to};
    return s.from < s.to ? s : (span){block.from, block.from};
}

/* -inf where row i of `rows`, which is row + i of the unit, does not see the column. */
INLINE void hide_unseen(float *s, int64_t ld, span c, int64_t row, int64_t rows, int64_t before,
                        int64_t after) {
    int64_t width = c.to - c.from;
    for (int64_t i = 0; i < rows; i++, s += ld) {
        int64_t first = row + i - before - c.from, end = row + i + after + 1 - c.from;
        for (int64_t x = 0; x < first && x < width; x++) s[x] = -INFINITY;
        for (int64_t x = end > 0 ? end : 0; x < width; x++) s[x] = -INFINITY;
    }
}

/* The first column that a span's words have, and their groups. */
INLINE int64_t words_from(span c) {
    return c.from / 64 * 64;
}
INLINE int64_t words_across(span c) {
    return drop_groups(c.to - words_from(c));
}

INLINE vf round_bf16(vf x, bool bf16) {
    return bf16 ? v_rounded(x) : x;
}

/* Stride of the rows of a strip of scores, in floats: never a multiple of a page, whose lines would
 * compete for the same sets of the first-level cache. */
INLINE int64_t padded(int64_t n) {
    return (n + 15) / 16 * 16;
}
INLINE int64_t strip_ld(int64_t n) {
    int64_t ld = padded(n);
    return ld % 256 == 0 ? ld + 16 : ld;
}

INLINE void put_bf16(sr_bf16 *y, vf v) {
    vh h = v_to_bf16_flushed(v);
    memcpy(y, &h, sizeof h);
}
INLINE void put_bf16_n(sr_bf16 *y, vf v, int64_t lanes) {
    h_put(y, 0, lanes, v_to_bf16_flushed(v));
}

INLINE vm lanes_below(int64_t n, int64_t i) {
    return v_first(n - i < VL ? (int)(n - i) : VL);
}

/* p = exp(p - maximum), with dropout, of ROWS rows: their chains hide each other's latency. most[r]
 * gets the maximum, sum[r] the sum before dropout; words of a row are `groups` apart.  Unless
 * `bf16` is NULL, it gets the results, and scores are p times a positive scale. */
INLINE void exp_rows(float *p, int64_t ld, int64_t n, const score_rule *rule, const uint32_t *words,
                     int64_t groups, const int rows, float *most, float *sum, sr_bf16 *bf16,
                     int64_t bf16_ld) {
    enum { ROWS = 4 };
    vf shift[ROWS], total[ROWS], scale = v_set(rule->scale);
    for (int r = 0; r < rows; r++) shift[r] = v_set(-INFINITY), total[r] = v_zero();
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        for (int r = 0; r < rows; r++) shift[r] = v_max(shift[r], v_load(p + r * ld + i));
    for (int r = 0; r < rows; r++) {
        const vf last = v_set(-INFINITY);
        if (i < n)
            shift[r] = v_max(shift[r], v_select(lanes_below(n, i), v_load(p + r * ld + i), last));
        most[r] = bf16 != NULL ? v_highest(shift[r]) * rule->scale : v_highest(shift[r]);
        shift[r] = v_set(most[r]);
    }
    for (i = 0; i < n; i += VL)
        for (int r = 0; r < rows; r++) {
            vf x = v_load(p + r * ld + i);
            vf e = v_exp_falling(bf16 != NULL ? v_fma(x, scale, -shift[r]) : x - shift[r]);
            if (n - i < VL) e = v_keep(lanes_below(n, i), e);
            total[r] += e;
            if (rule->key.keep < 256)
                e = v_keep(
                    drop_kept(words + r * groups, rule->stride, i + rule->shift, rule->key.keep),
                    e);
            if (bf16 != NULL)
                put_bf16(bf16 + r * bf16_ld + i, e);
            else
                v_store(p + r * ld + i, round_bf16(e, rule->bf16));
        }
    for (int r = 0; r < rows; r++) sum[r] = v_sum(total[r]);
}

/* Softmax with dropout of `rows` rows (at most MOST_ROWS), but for the factors of rows, in place or
 * into `bf16` unless NULL. */
enum { MOST_ROWS = 128 };
INLINE void softmax_rows(float *p, int64_t ld, int64_t n, int64_t rows, const score_rule *rule,
                         const uint32_t *words, int64_t groups, float *lse, float *factor,
                         sr_bf16 *bf16, int64_t bf16_ld) {
    float most[MOST_ROWS], sum[MOST_ROWS], keep_scale = 256.0f / (float)rule->key.keep;
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4)
        exp_rows(p + i * ld, ld, n, rule, words + i * groups, groups, 4, most + i, sum + i,
                 bf16 != NULL ? bf16 + i * bf16_ld : NULL, bf16_ld);
    for (; i < rows; i++)
        exp_rows(p + i * ld, ld, n, rule, words + i * groups, groups, 1, most + i, sum + i,
                 bf16 != NULL ? bf16 + i * bf16_ld : NULL, bf16_ld);
    for (i = 0; i < rows; i++) {
        lse[i] = most[i] + logf(sum[i]);
        factor[i] = keep_scale / sum[i];
    }
}
INLINE void softmax_in_place(float *p, int64_t ld, int64_t n, int64_t rows, const score_rule *rule,
                             const uint32_t *words, int64_t groups, float *lse, float *factor) {
    softmax_rows(p, ld, n, rows, rule, words, groups, lse, factor, NULL, 0);
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    vf s = v_zero();
    for (int64_t i = 0; i < n; i += VL) s = v_fma(v_at(a, i, n), v_at(b, i, n), s);
    return v_sum(s);
}

typedef struct derivative_lanes {
    vf dropped, derivative; /* Z r P and dS */
} derivative_lanes;

/* From lanes of log P, dP and delta, `live` of which count; `kept` only if keep < 256. */
INLINE derivative_lanes derivatives_of(vf log_p, vf dp, vf delta, int64_t live, vm kept,
                                       uint32_t keep) {
    vf p = v_exp_falling(log_p), scale = v_set(256.0f / (float)keep);
    if (live < VL) p = v_keep(v_first((int)live), p);
    vf dropped = p;
    if (keep < 256) {
        dropped = v_keep(kept, p * scale);
        dp = v_keep(kept, dp * scale);
    }
    return (derivative_lanes){dropped, p * (dp - delta)};
}

/* On entry s has the scores and ds dP; on return Z r P and dS. */
INLINE void derivatives(float *s, float *ds, int64_t n, float lse, float delta,
                        const score_rule *rule, const uint32_t *words) {
    uint32_t keep = rule->key.keep;
    vf shift = v_set(lse), minus = v_set(delta);
    for (int64_t i = 0; i < n; i += VL) {
        vm kept = keep < 256 ? drop_kept(words, rule->stride, i + rule->shift, keep) : v_first(VL);
        derivative_lanes l =
            derivatives_of(v_load(s + i) - shift, v_load(ds + i), minus, n - i, kept, keep);
        v_store(s + i, round_bf16(l.dropped, rule->bf16));
        v_store(ds + i, round_bf16(l.derivative, rule->bf16));
    }
}

#endif
