/* scores.h - what attention does to a row of scores between its products: softmax with dropout, and
 * its derivatives.
 *
 * Rows are readable and writable up to a full vector.  `words` are the draws of the row, words[w *
 * stride + group] as in keys.h.  With `bf16` the results are rounded to bf16, and stay where they
 * are or go to rows of bf16; sums are of values that are not rounded.
 */
#pragma once

#include "kernels/cpu/simd/feed.h"
#include "kernels/cpu/simd/keys.h"
#include "kernels/cpu/simd/bf16.h"
#include "kernels/cpu/simd/math.h"

typedef struct score_rule {
    sr_key key;
    int64_t stride; /* of words */
    bool bf16;
    float unit;    /* what becomes rows of bf16 is times this; the others have it already */
    int64_t shift; /* of column 0 from the first column of the words: a multiple of 16 below 64 */
} score_rule;

/* Scores are logarithms to base 2: q k times this. */
INLINE float score_unit(const sr_attention_unit *u) {
    return u->scale * LOG2_E;
}

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

INLINE int64_t position_of(const sr_attention_unit *u, int64_t query) {
    return u->position != NULL ? u->position[query] : query;
}

/* The queries before a position. */
INLINE int64_t queries_below(const sr_attention_unit *u, int64_t position) {
    if (u->position == NULL) return position;
    int64_t low = 0, high = u->queries;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (u->position[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The keys that some queries see. */
INLINE span keys_seen(const sr_attention_unit *u, int64_t query, int64_t queries) {
    int64_t first = position_of(u, query), last = position_of(u, query + queries - 1);
    return span_of(u->n, first, last - first + 1, u->before, u->after);
}

/* The queries that see some keys, and never none: where no listed one does, some whose scores are
 * hidden. */
INLINE span queries_seeing(const sr_attention_unit *u, int64_t key, int64_t keys) {
    if (u->position == NULL) return span_of(u->n, key, keys, u->after, u->before);
    int64_t from = queries_below(u, key - u->after), to = queries_below(u, key + keys + u->before);
    if (from == u->queries) from--;
    from = from / EDGE * EDGE;
    to = to > from ? (to + EDGE - 1) / EDGE * EDGE : from + EDGE;
    return (span){from, to < u->queries ? to : u->queries};
}

/* The most keys that as many queries see; listed ones may be far apart. */
INLINE int64_t most_seen(const sr_attention_unit *u, int64_t queries) {
    int64_t most = queries + u->before + u->after + 2 * EDGE;
    return most < u->n && u->position == NULL ? most : u->n;
}

/* The columns of `c` that are in a block, possibly none. */
INLINE span span_in(span c, span block) {
    span s = {c.from > block.from ? c.from : block.from, c.to < block.to ? c.to : block.to};
    return s.from < s.to ? s : (span){block.from, block.from};
}

/* -inf in all of `width` columns but first .. end - 1 */
INLINE void hide_but(float *s, int64_t width, int64_t first, int64_t end) {
    for (int64_t x = 0; x < first && x < width; x++) s[x] = -INFINITY;
    for (int64_t x = end > 0 ? end : 0; x < width; x++) s[x] = -INFINITY;
}

/* -inf in the scores of queries where they do not see a key of the span. */
INLINE void hide_keys(const sr_attention_unit *u, float *s, int64_t ld, span keys, int64_t query,
                      int64_t queries) {
    if (!sr_attention_is_partial(u)) return;
    for (int64_t i = query; i < query + queries; i++, s += ld) {
        int64_t at = position_of(u, i) - keys.from;
        hide_but(s, keys.to - keys.from, at - u->before, at + u->after + 1);
    }
}

/* The same the other way round, in rows of keys. */
INLINE void hide_queries(const sr_attention_unit *u, float *s, int64_t ld, span queries,
                         int64_t key, int64_t keys) {
    if (!sr_attention_is_partial(u)) return;
    int64_t width = queries.to - queries.from;
    for (int64_t k = key; k < key + keys; k++, s += ld) {
        int64_t first = queries_below(u, k - u->after), end = queries_below(u, k + u->before + 1);
        hide_but(s, width, first - queries.from, end - queries.from);
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

/* ---- softmax --------------------------------------------------------------------------------- */

/* Rows of scores, and where their exponentials go: in place, or to rows of bf16. */
typedef struct score_rows {
    float *s;
    int64_t ld, n, groups; /* groups of words in a row */
    const uint32_t *words;
    sr_bf16 *bf16; /* or NULL */
    int64_t bf16_ld;
} score_rows;

enum { TOGETHER = 4, MOST_ROWS = 128 };

/* most[r]: the maximum of row r. */
INLINE void row_maxima(const score_rows *t, const float *s, const int rows, float most[TOGETHER]) {
    const int64_t ld = t->ld, n = t->n;
    vf high[TOGETHER];
    int64_t i = 0;
    for (int r = 0; r < TOGETHER; r++) high[r] = v_set(-INFINITY);
    for (; i + VL <= n; i += VL)
        for (int r = 0; r < rows; r++) high[r] = v_max(high[r], v_load(s + r * ld + i));
    for (int r = 0; i < n && r < rows; r++)
        high[r] = v_max(high[r], v_select(lanes_below(n, i), v_load(s + r * ld + i), high[r]));
    quad m = v_maxima(high[0], high[1], high[2], high[3]);
    memcpy(most, &m, sizeof m);
}

/* Columns i .. of `rows` rows: 2^(s - most) with dropout; total[r] += what it is before. */
INLINE void exp_columns(const score_rows *t, const score_rule *rule, int64_t at, int64_t i,
                        const int rows, const bool low, const bool drop, const bool whole,
                        const vf *most, vf *total) {
    float *s = t->s + at * t->ld + i;
    const uint32_t *words = t->words + at * t->groups;
    for (int r = 0; r < rows; r++, s += t->ld, words += t->groups) {
        vf x = v_load(s);
        x = low ? v_fma(x, v_set(rule->unit), -most[r]) : x - most[r];
        vf e = v_exp2_falling(x, low);
        if (!whole) e = v_keep(lanes_below(t->n, i), e);
        total[r] += e;
        if (drop) e = v_keep(drop_kept(words, rule->stride, i + rule->shift, rule->key.keep), e);
        if (low)
            put_bf16(t->bf16 + (at + r) * t->bf16_ld + i, e);
        else
            v_store(s, round_bf16(e, rule->bf16));
    }
}

/* ROWS rows at a time: their chains hide each other's latency. */
INLINE void exp_rows(const score_rows *given, const score_rule *given_rule, int64_t at,
                     const int rows, const bool low, const bool drop, float *most, float *sum) {
    const score_rows t = *given; /* copies stay in registers while rows are written */
    const score_rule rule = *given_rule;
    vf high[TOGETHER], total[TOGETHER];
    float found[TOGETHER];
    row_maxima(&t, t.s + at * t.ld, rows, found);
    for (int r = 0; r < TOGETHER; r++) total[r] = v_zero();
    for (int r = 0; r < rows; r++) {
        most[r] = low ? found[r] * rule.unit : found[r];
        high[r] = v_set(most[r]);
    }
    int64_t i = 0;
    for (; i + VL <= t.n; i += VL)
        exp_columns(&t, &rule, at, i, rows, low, drop, true, high, total);
    if (i < t.n) exp_columns(&t, &rule, at, i, rows, low, drop, false, high, total);
    quad s = v_sums(total[0], total[1], total[2], total[3]);
    memcpy(sum, &s, (size_t)rows * sizeof *sum);
}

INLINE void exp_all(const score_rows *t, const score_rule *rule, int64_t rows, const bool low,
                    const bool drop, float *most, float *sum, feed *next) {
    int64_t i = 0;
    for (; i + TOGETHER <= rows; i += TOGETHER) {
        take(next, TOGETHER);
        exp_rows(t, rule, i, TOGETHER, low, drop, most + i, sum + i);
    }
    for (; i < rows; i++) {
        take(next, 1);
        exp_rows(t, rule, i, 1, low, drop, most + i, sum + i);
    }
}

/* Softmax with dropout of `rows` rows (at most MOST_ROWS), but for the factors of rows.  Each
 * prefetches a row of the next head. */
INLINE void softmax_rows(const score_rows *t, const score_rule *rule, int64_t rows, const bool low,
                         float *lse, float *factor, feed *next) {
    UNSET float most[MOST_ROWS], sum[MOST_ROWS];
    if (rule->key.keep < 256)
        exp_all(t, rule, rows, low, true, most, sum, next);
    else
        exp_all(t, rule, rows, low, false, most, sum, next);
    vf scale = v_set(256.0f / (float)rule->key.keep);
    for (int64_t i = 0; i < rows; i += VL) {
        vf s = v_at(sum, i, rows);
        v_put(lse, i, rows, (v_at(most, i, rows) + v_log2(s)) * v_set(LN_2));
        v_put(factor, i, rows, scale / s);
    }
}
INLINE float dot(const float *a, const float *b, int64_t n) {
    vf s = v_zero();
    for (int64_t i = 0; i < n; i += VL) s = v_fma(v_at(a, i, n), v_at(b, i, n), s);
    return v_sum(s);
}

typedef struct derivative_lanes {
    vf dropped, derivative; /* Z r P and dS */
} derivative_lanes;

/* From lanes of log2 P, dP and delta, `live` of which count; `kept` only if keep < 256. */
INLINE derivative_lanes derivatives_of(vf log_p, vf dp, vf delta, int64_t live, vm kept,
                                       uint32_t keep, const bool low) {
    vf p = v_exp2_falling(log_p, low), scale = v_set(256.0f / (float)keep);
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
    int64_t stride = rule->stride, first = rule->shift;
    bool bf16 = rule->bf16;
    vf shift = v_set(lse * LOG2_E), minus = v_set(delta);
    for (int64_t i = 0; i < n; i += VL) {
        vm kept = keep < 256 ? drop_kept(words, stride, i + first, keep) : v_first(VL);
        derivative_lanes l =
            derivatives_of(v_load(s + i) - shift, v_load(ds + i), minus, n - i, kept, keep, false);
        v_store(s + i, round_bf16(l.dropped, bf16));
        v_store(ds + i, round_bf16(l.derivative, bf16));
    }
}
