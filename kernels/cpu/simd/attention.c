/* attention.c - one sequence and head of packed self-attention, forward and backward.
 *
 * STRIP query rows at a time visit the keys that they see, so softmax is one pass over a row;
 * memory is O(n D + STRIP keys), never n^2.  With n = 512, D = 64: 0.4 MB forward, 1.1 MB backward,
 * in the second-level cache.
 *
 * Forward   K is packed as panels of K^T, V as panels of V.  A strip: S = scale Q K^T, row maximum,
 *           exp, sum, keyed dropout in place, O = P V, rows scaled by 1 / sum.
 * Backward  a strip: P again from S and lse, dP = dO V^T, dS = P (Z r dP - delta) with delta =
 *           <dO, O>, dQ = scale dS K, and dK += scale dS^T Q, dV += (Z r P)^T dO in order.
 * Windows   a strip takes the part of the panels that its rows see (scores.h), rounded to EDGE;
 *           scores that are in it but unseen become -inf.
 * Work      4 D flops forward, 10 D backward for each pair of a query and a key of the strips, in
 *           the tiles of gemm.c; exp and dropout cost about 30 instructions per vector of P.
 * Numerics  all f32; on bf16 tensors exp, Z r P and dS are rounded to bf16 before they are
 *           multiplied, and the sum is of the unrounded values.  lse = maximum + log(sum), natural;
 *           sums exclude dropout.  A unit reads and writes its own rows only, in an order fixed by
 *           n, D and what rows see.
 */
#include "kernels/cpu/simd/scores.h"

enum { STRIP = 48 }; /* a multiple of every TILE_M */

void SR_SIMD(gemm_rows)(const sr_gemm *g);
void SR_SIMD(gemm_columns)(const sr_gemm *g);
void SR_SIMD(pack_b)(float *out, const float *b, int64_t row, int64_t column, int64_t k, int64_t n);

/* ---- room ------------------------------------------------------------------------------------ */

/* Columns of a strip of scores. */
INLINE int64_t strip_width(const sr_attention_unit *u) {
    return span_most(u->n, STRIP, u->before, u->after);
}

INLINE int64_t word_stride(int64_t width) {
    return STRIP * (drop_groups(width) + 4);
}

typedef struct room {
    float *kt, *s, *rows, *panels; /* forward: panels of V; backward: panels of K */
    float *vt, *ds, *dk, *dv, *drows, *row_panels, *drow_panels;
    uint32_t *words;
    int64_t ld, stride; /* of s and ds; of words */
    int64_t floats;     /* all of it */
} room;

static float *part(room *r, char *base, int64_t floats) {
    float *at = (float *)(base + r->floats * (int64_t)sizeof(float));
    r->floats += padded(floats);
    return at;
}

static room lay_out(void *base, const sr_attention_unit *u, bool backward) {
    int64_t n = u->n, d = u->d, width = strip_width(u);
    room r = {.ld = strip_ld(width), .stride = word_stride(width)};
    char *at = base;
    r.kt = part(&r, at, padded(n) * d);
    r.panels = part(&r, at, n * padded(d));
    r.s = part(&r, at, STRIP * r.ld);
    r.rows = part(&r, at, STRIP * d);
    r.words = (uint32_t *)part(&r, at, 4 * r.stride);
    if (!backward) return r;
    r.vt = part(&r, at, padded(n) * d);
    r.ds = part(&r, at, STRIP * r.ld);
    r.dk = part(&r, at, n * d);
    r.dv = part(&r, at, n * d);
    r.drows = part(&r, at, STRIP * d);
    r.row_panels = part(&r, at, STRIP * padded(d));
    r.drow_panels = part(&r, at, STRIP * padded(d));
    return r;
}

int64_t SR_SIMD(attention_room)(const sr_attention_unit *longest, bool backward) {
    static char nothing[1]; /* only offsets are needed */
    return lay_out(nothing, longest, backward).floats * (int64_t)sizeof(float);
}

/* ---- a strip --------------------------------------------------------------------------------- */

typedef struct strip {
    int64_t row, rows; /* of queries */
    span keys;
    int64_t width, groups; /* keys; of draws in a row */
    score_rule rule;
} strip;

static strip strip_at(const sr_attention_unit *u, const room *r, int64_t row) {
    strip t = {.row = row, .rows = u->n - row < STRIP ? u->n - row : STRIP};
    t.keys = span_of(u->n, row, t.rows, u->before, u->after);
    t.width = t.keys.to - t.keys.from;
    t.groups = words_across(t.keys);
    t.rule = (score_rule){u->key, r->stride, u->bf16, 1, t.keys.from - words_from(t.keys)};
    return t;
}

/* Copies `rows` rows of d floats contiguously, with zeros up to a full strip. */
static void copy_strip(float *to, const float *from, int64_t ld, int64_t rows, int64_t d) {
    for (int64_t i = 0; i < rows; i++) memcpy(to + i * d, from + i * ld, (size_t)d * sizeof *to);
    memset(to + rows * d, 0, (size_t)((STRIP - rows) * d) * sizeof *to);
}

/* Zeros behind the columns of a strip, as far as tiles read. */
static void clear_tails(float *s, int64_t ld, int64_t width) {
    for (int64_t i = 0; i < STRIP; i++)
        memset(s + i * ld + width, 0, (size_t)(padded(width) - width) * sizeof *s);
}

/* c (rows, keys) = alpha rows x^T, given the panels of x^T */
static void multiply_transposed(float *c, const sr_attention_unit *u, const room *r, const strip *t,
                                const float *rows, const float *panels, float alpha) {
    sr_gemm g = {.c = c,
                 .a = rows,
                 .b = panels,
                 .part = {u->d, u->n, 0, t->keys.from},
                 .ldc = r->ld,
                 .lda = u->d,
                 .m = t->rows,
                 .n = t->width,
                 .k = u->d,
                 .alpha = alpha};
    SR_SIMD(gemm_rows)(&g);
}

/* The strip's scores, -inf where they are not seen, and its draws. */
static void scores(const sr_attention_unit *u, const room *r, const strip *t) {
    multiply_transposed(r->s, u, r, t, r->rows, r->kt, u->scale);
    if (sr_attention_is_partial(u))
        hide_unseen(r->s, r->ld, t->keys, t->row, t->rows, u->before, u->after);
    if (u->key.keep < 256)
        drop_words(r->words, r->stride, &u->key, t->row, t->rows, words_from(t->keys), t->groups);
}

/* c (rows, d) = alpha s x, given the panels of x */
static void mix(float *c, int64_t ldc, const sr_attention_unit *u, const room *r, const strip *t,
                const float *s, float alpha) {
    sr_gemm g = {.c = c,
                 .a = s,
                 .b = r->panels,
                 .part = {u->n, u->d, t->keys.from, 0},
                 .ldc = ldc,
                 .lda = r->ld,
                 .m = t->rows,
                 .n = u->d,
                 .k = t->width,
                 .alpha = alpha};
    SR_SIMD(gemm_rows)(&g);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void scale_row(float *x, int64_t n, float factor) {
    vf f = v_set(factor);
    for (int64_t i = 0; i < n; i += VL) v_put(x, i, n, v_at(x, i, n) * f);
}

void SR_SIMD(attention)(const sr_attention_unit *u) {
    int64_t n = u->n, d = u->d;
    room r = lay_out(u->room, u, false);
    SR_SIMD(pack_b)(r.kt, u->k, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r.panels, u->v, u->ld, 1, n, d);
    memset(r.s, 0, (size_t)(STRIP * r.ld) * sizeof *r.s);
    for (int64_t q = 0; q < n; q += STRIP) {
        strip t = strip_at(u, &r, q);
        float factor[STRIP], *out = u->out + q * u->ldo;
        copy_strip(r.rows, u->q + q * u->ld, u->ld, t.rows, d);
        scores(u, &r, &t);
        softmax_in_place(r.s, r.ld, t.width, t.rows, &t.rule, r.words, t.groups, u->lse + q,
                         factor);
        mix(out, u->ldo, u, &r, &t, r.s, 1);
        for (int64_t i = 0; i < t.rows; i++) scale_row(out + i * u->ldo, d, factor[i]);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* c (n, d) += alpha strip^T rows, in the rows of the strip's keys */
static void add_transposed(float *c, const float *s, const float *row_panels,
                           const sr_attention_unit *u, const room *r, const strip *t, float alpha,
                           bool add) {
    sr_gemm g = {.c = c + t->keys.from * u->d,
                 .a = s,
                 .b = row_panels,
                 .ldc = u->d,
                 .lda = r->ld,
                 .m = t->width,
                 .n = u->d,
                 .k = t->rows,
                 .alpha = alpha,
                 .add = add};
    SR_SIMD(gemm_columns)(&g);
}

static void backward_strip(const sr_attention_unit *u, const room *r, int64_t q, bool add) {
    strip t = strip_at(u, r, q);
    int64_t d = u->d, rows = t.rows;
    const float *dout = u->dout + q * u->ldo, *out = u->out + q * u->ldo;
    copy_strip(r->rows, u->q + q * u->ld, u->ld, rows, d);
    copy_strip(r->drows, dout, u->ldo, rows, d);
    scores(u, r, &t);
    multiply_transposed(r->ds, u, r, &t, r->drows, r->vt, 1);
    for (int64_t i = 0; i < rows; i++)
        derivatives(r->s + i * r->ld, r->ds + i * r->ld, t.width, u->lse[q + i],
                    dot(dout + i * u->ldo, out + i * u->ldo, d), &t.rule, r->words + i * t.groups);
    mix(u->dq + q * u->ld, u->ld, u, r, &t, r->ds, u->scale);
    SR_SIMD(pack_b)(r->row_panels, r->rows, d, 1, rows, d);
    SR_SIMD(pack_b)(r->drow_panels, r->drows, d, 1, rows, d);
    add_transposed(r->dk, r->ds, r->row_panels, u, r, &t, u->scale, add);
    add_transposed(r->dv, r->s, r->drow_panels, u, r, &t, 1.0f, add);
    clear_tails(r->s, r->ld, t.width), clear_tails(r->ds, r->ld, t.width);
}

/* What the members of a unit share. */
static void begin_backward(const sr_attention_unit *u, const room *r) {
    int64_t n = u->n, d = u->d;
    SR_SIMD(pack_b)(r->kt, u->k, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r->vt, u->v, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r->panels, u->k, u->ld, 1, n, d);
    memset(r->s, 0, (size_t)(STRIP * r->ld) * sizeof *r->s);
    memset(r->ds, 0, (size_t)(STRIP * r->ld) * sizeof *r->ds);
    if (!sr_attention_is_partial(u)) return; /* the first strip writes them */
    memset(r->dk, 0, (size_t)(n * d) * sizeof *r->dk);
    memset(r->dv, 0, (size_t)(n * d) * sizeof *r->dv);
}

void SR_SIMD(attention_backward)(const sr_attention_unit *u) {
    int64_t n = u->n, d = u->d;
    room r = lay_out(u->room, u, true);
    if (u->member == 0) begin_backward(u, &r);
    bool written = u->member > 0 || sr_attention_is_partial(u);
    for (int64_t q = 0; q < n; q += STRIP) backward_strip(u, &r, q, q > 0 || written);
    if (u->member < u->members - 1) return;
    for (int64_t i = 0; i < n; i++) {
        memcpy(u->dk + i * u->ld, r.dk + i * d, (size_t)d * sizeof *r.dk);
        memcpy(u->dv + i * u->ld, r.dv + i * d, (size_t)d * sizeof *r.dv);
    }
}
