/* attention.c - one sequence and head of packed self-attention, forward and backward.
 *
 * STRIP query rows at a time visit all n keys, so softmax is one pass over a row; memory is
 * O(n (STRIP + D)), never n^2.  With n = 512, D = 64: 0.4 MB forward, 1.1 MB backward, in the
 * second-level cache.
 *
 * Forward   K is packed as panels of K^T, V as panels of V.  A strip: S = scale Q K^T, row maximum,
 *           exp, sum, keyed dropout in place, O = P V, rows scaled by 1 / sum.
 * Backward  a strip: P again from S and lse, dP = dO V^T, dS = P (Z r dP - delta) with delta =
 *           <dO, O>, dQ = scale dS K, and dK += scale dS^T Q, dV += (Z r P)^T dO in order.
 * Work      4 n^2 D flops forward, 10 n^2 D backward, in the tiles of gemm.c; exp and dropout cost
 *           about 30 instructions per vector of P.
 * Numerics  all f32; on bf16 tensors exp, Z r P and dS are rounded to bf16 before they are
 *           multiplied, and the sum is of the unrounded values.  lse = maximum + log(sum), natural;
 *           sums exclude dropout.  A unit reads and writes its own rows only, in an order fixed by
 *           n and D.
 */
#include "kernels/cpu/simd/scores.h"

enum { STRIP = 48 }; /* a multiple of every TILE_M */

void SR_SIMD(gemm_rows)(const sr_gemm *g);
void SR_SIMD(gemm_columns)(const sr_gemm *g);
void SR_SIMD(pack_b)(float *out, const float *b, int64_t row, int64_t column, int64_t k, int64_t n);

/* ---- room ------------------------------------------------------------------------------------ */

INLINE int64_t word_stride(int64_t n) {
    return STRIP * drop_groups(n);
}

typedef struct room {
    float *kt, *s, *rows, *panels; /* forward: panels of V; backward: panels of K */
    float *vt, *ds, *dk, *dv, *drows, *row_panels, *drow_panels;
    uint32_t *words;
    int64_t floats; /* all of it */
} room;

static float *part(room *r, char *base, int64_t floats) {
    float *at = (float *)(base + r->floats * (int64_t)sizeof(float));
    r->floats += padded(floats);
    return at;
}

static room lay_out(void *base, int64_t n, int64_t d, bool backward) {
    room r = {0};
    char *at = base;
    r.kt = part(&r, at, padded(n) * d);
    r.panels = part(&r, at, n * padded(d));
    r.s = part(&r, at, STRIP * strip_ld(n));
    r.rows = part(&r, at, STRIP * d);
    r.words = (uint32_t *)part(&r, at, 4 * word_stride(n));
    if (!backward) return r;
    r.vt = part(&r, at, padded(n) * d);
    r.ds = part(&r, at, STRIP * strip_ld(n));
    r.dk = part(&r, at, n * d);
    r.dv = part(&r, at, n * d);
    r.drows = part(&r, at, STRIP * d);
    r.row_panels = part(&r, at, STRIP * padded(d));
    r.drow_panels = part(&r, at, STRIP * padded(d));
    return r;
}

int64_t SR_SIMD(attention_room)(int64_t longest, int64_t d, bool backward) {
    static char nothing[1]; /* only offsets are needed */
    return lay_out(nothing, longest, d, backward).floats * (int64_t)sizeof(float);
}

/* Copies `rows` rows of d floats contiguously, with zeros up to a full strip. */
static void copy_strip(float *to, const float *from, int64_t ld, int64_t rows, int64_t d) {
    for (int64_t i = 0; i < rows; i++) memcpy(to + i * d, from + i * ld, (size_t)d * sizeof *to);
    memset(to + rows * d, 0, (size_t)((STRIP - rows) * d) * sizeof *to);
}

static void clear_tails(float *s, int64_t n) {
    int64_t ld = strip_ld(n);
    for (int64_t i = 0; i < STRIP; i++) memset(s + i * ld + n, 0, (size_t)(ld - n) * sizeof *s);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void scale_row(float *x, int64_t n, float factor) {
    vf f = v_set(factor);
    for (int64_t i = 0; i < n; i += VL) v_put(x, i, n, v_at(x, i, n) * f);
}

static void scores(const sr_attention_unit *u, const room *r, int64_t rows) {
    sr_gemm g = {.c = r->s,
                 .a = r->rows,
                 .b = r->kt,
                 .ldc = strip_ld(u->n),
                 .lda = u->d,
                 .m = rows,
                 .n = u->n,
                 .k = u->d,
                 .alpha = u->scale};
    SR_SIMD(gemm_rows)(&g);
}

void SR_SIMD(attention)(const sr_attention_unit *u) {
    int64_t n = u->n, d = u->d, ld = strip_ld(n), groups = drop_groups(n);
    room r = lay_out(u->room, n, d, false);
    SR_SIMD(pack_b)(r.kt, u->k, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r.panels, u->v, u->ld, 1, n, d);
    memset(r.s, 0, (size_t)(STRIP * ld) * sizeof *r.s);
    score_rule rule = {u->key, word_stride(n), u->bf16, 1};
    for (int64_t q = 0; q < n; q += STRIP) {
        int64_t rows = n - q < STRIP ? n - q : STRIP;
        float factor[STRIP];
        copy_strip(r.rows, u->q + q * u->ld, u->ld, rows, d);
        scores(u, &r, rows);
        if (u->key.keep < 256) drop_words(r.words, rule.stride, &u->key, q, rows, groups);
        softmax_in_place(r.s, ld, n, rows, &rule, r.words, groups, u->lse + q, factor);
        float *out = u->out + q * u->ldo;
        sr_gemm g = {.c = out,
                     .a = r.s,
                     .b = r.panels,
                     .ldc = u->ldo,
                     .lda = ld,
                     .m = rows,
                     .n = d,
                     .k = n,
                     .alpha = 1};
        SR_SIMD(gemm_rows)(&g);
        for (int64_t i = 0; i < rows; i++) scale_row(out + i * u->ldo, d, factor[i]);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* c (n, d) += alpha strip^T rows */
static void add_transposed(float *c, const float *strip, const float *row_panels, int64_t rows,
                           const sr_attention_unit *u, float alpha, bool add) {
    sr_gemm g = {.c = c,
                 .a = strip,
                 .b = row_panels,
                 .ldc = u->d,
                 .lda = strip_ld(u->n),
                 .m = u->n,
                 .n = u->d,
                 .k = rows,
                 .alpha = alpha,
                 .add = add};
    SR_SIMD(gemm_columns)(&g);
}

static void backward_strip(const sr_attention_unit *u, const room *r, int64_t q) {
    int64_t n = u->n, d = u->d, ld = strip_ld(n), groups = drop_groups(n);
    int64_t rows = n - q < STRIP ? n - q : STRIP;
    const float *dout = u->dout + q * u->ldo, *out = u->out + q * u->ldo;
    copy_strip(r->rows, u->q + q * u->ld, u->ld, rows, d);
    copy_strip(r->drows, dout, u->ldo, rows, d);
    scores(u, r, rows);
    sr_gemm dp = {.c = r->ds,
                  .a = r->drows,
                  .b = r->vt,
                  .ldc = ld,
                  .lda = d,
                  .m = rows,
                  .n = n,
                  .k = d,
                  .alpha = 1};
    SR_SIMD(gemm_rows)(&dp);
    score_rule rule = {u->key, word_stride(n), u->bf16, 1};
    if (u->key.keep < 256) drop_words(r->words, rule.stride, &u->key, q, rows, groups);
    for (int64_t i = 0; i < rows; i++)
        derivatives(r->s + i * ld, r->ds + i * ld, n, u->lse[q + i],
                    dot(dout + i * u->ldo, out + i * u->ldo, d), &rule, r->words + i * groups);
    sr_gemm dq = {.c = u->dq + q * u->ld,
                  .a = r->ds,
                  .b = r->panels,
                  .ldc = u->ld,
                  .lda = ld,
                  .m = rows,
                  .n = d,
                  .k = n,
                  .alpha = u->scale};
    SR_SIMD(gemm_rows)(&dq);
    SR_SIMD(pack_b)(r->row_panels, r->rows, d, 1, rows, d);
    SR_SIMD(pack_b)(r->drow_panels, r->drows, d, 1, rows, d);
    add_transposed(r->dk, r->ds, r->row_panels, rows, u, u->scale, q > 0);
    add_transposed(r->dv, r->s, r->drow_panels, rows, u, 1.0f, q > 0);
}

void SR_SIMD(attention_backward)(const sr_attention_unit *u) {
    int64_t n = u->n, d = u->d;
    room r = lay_out(u->room, n, d, true);
    SR_SIMD(pack_b)(r.kt, u->k, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r.vt, u->v, 1, u->ld, d, n);
    SR_SIMD(pack_b)(r.panels, u->k, u->ld, 1, n, d);
    memset(r.s, 0, (size_t)(STRIP * strip_ld(n)) * sizeof *r.s);
    memset(r.ds, 0, (size_t)(STRIP * strip_ld(n)) * sizeof *r.ds);
    for (int64_t q = 0; q < n; q += STRIP) {
        if (q > 0) clear_tails(r.s, n), clear_tails(r.ds, n);
        backward_strip(u, &r, q);
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(u->dk + i * u->ld, r.dk + i * d, (size_t)d * sizeof *r.dk);
        memcpy(u->dv + i * u->ld, r.dv + i * d, (size_t)d * sizeof *r.dv);
    }
}
