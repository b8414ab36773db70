/* attention_short.c - one sequence and head of packed self-attention, for sequences of up to
 * SR_ATTENTION_SHORT rows.
 *
 * The same sums in the same order as attention.c, so the same bits, but all scores at once instead
 * of strips, rows side by side instead of panels, and tiles that fit the number of rows.
 *
 * Short sequences do few multiply-adds per byte (n / 4 forward in f32), so they wait for memory
 * unless the rows of the next head arrive while this one is computed: every row of scores, and
 * backward every tile, prefetches a row of them.  More at once would delay this head's own loads.
 */
#include "kernels/cpu/simd/feed.h"
#include "kernels/cpu/simd/scores.h"

/* STRIP: attention.c adds up gradients of K and V in strips of as many rows.  ROWS: that have
 * scores at a time, whose lines then stay in the first-level cache even where rows compete for its
 * sets. */
enum { STRIP = 48, ROWS = 3 * TILE_M };

INLINE int64_t whole(int64_t n) {
    return (n + VL - 1) / VL * VL;
}

/* ---- products -------------------------------------------------------------------------------- */

/* c (m, n) = or += alpha a (m, k) b (k, n), row i of c times factor[i] unless NULL.  b is readable
 * up to whole vectors, c writable up to whole vectors if n is whole. */
typedef struct product {
    float *c;
    const float *a, *b, *factor;
    int64_t ldc, a_row, a_k, ldb, m, n, k;
    float alpha;
    bool add;
    feed *next;
} product;

INLINE void tile(const product *p, int64_t i, int64_t j, const int rows, const int vectors) {
    enum { ROWS = 16, VECTORS = 3 };
    vf acc[ROWS][VECTORS];
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    if (p->next != NULL) take(p->next, 1);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) acc[r][v] = v_zero();
    for (int64_t k = p->k; k > 0; k--, a += p->a_k, b += p->ldb) {
        vf line[VECTORS];
        for (int v = 0; v < vectors; v++) line[v] = v_load(b + v * VL);
        for (int r = 0; r < rows; r++) {
            vf x = v_set(a[r * p->a_row]);
            for (int v = 0; v < vectors; v++) acc[r][v] = v_fma(x, line[v], acc[r][v]);
        }
    }
    for (int r = 0; r < rows; r++) {
        float *c = p->c + (i + r) * p->ldc;
        vf alpha = v_set(p->factor != NULL ? p->factor[i + r] : p->alpha);
        for (int v = 0; v < vectors; v++) {
            vf y = acc[r][v] * alpha;
            v_put(c, j + v * VL, p->n, p->add ? v_at(c, j + v * VL, p->n) + y : y);
        }
    }
}

/* All rows of a column of tiles: tall ones, then what is left. */
INLINE void tiles(const product *p, int64_t j, const int vectors, const int tall) {
    int64_t i = 0;
    for (; i + tall <= p->m && (tall <= 4 || p->m - i != 8); i += tall)
        tile(p, i, j, tall, vectors);
    for (; tall > 4 && i + 4 <= p->m; i += 4) tile(p, i, j, 4, vectors);
    if (i + 2 <= p->m) tile(p, i, j, 2, vectors), i += 2;
    if (i < p->m) tile(p, i, j, 1, vectors);
}

/* Three vectors per tile; two in the last ones rather than a single one. */
static void multiply(const product *p) {
    int64_t left = whole(p->n) / VL, j = 0;
    for (; TILE_V >= 3 && left >= 3 && left != 4; left -= 3, j += 3 * VL) tiles(p, j, 3, TILE_M);
    for (; left >= 2; left -= 2, j += 2 * VL) tiles(p, j, 2, TILE_V >= 3 ? TILE_M * 3 / 2 : TILE_M);
    if (left == 1) tiles(p, j, 1, TILE_V >= 3 ? 2 * TILE_M : TILE_M);
}

/* ---- operands -------------------------------------------------------------------------------- */

typedef struct matrix {
    const float *at;
    int64_t ld;
} matrix;

typedef struct room {
    char *at;
    int64_t floats;
} room;

static float *part(room *r, int64_t floats) {
    float *at = (float *)(r->at + r->floats * (int64_t)sizeof(float));
    r->floats += (floats + 15) / 16 * 16;
    return at;
}

/* Whole rows side by side, in f32, in a copy unless they are: rows of qkv compete for few sets of a
 * cache. */
static matrix copied(room *room, const float *x, int64_t ld, int64_t rows,
                     const sr_attention_unit *u) {
    int64_t to_ld = whole(u->d);
    if (!u->bf16 && ld == u->d && ld == to_ld) return (matrix){x, ld};
    float *to = part(room, rows * to_ld);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < u->d; c += VL)
            v_store(to + r * to_ld + c,
                    u->bf16 ? v_from_bf16(h_at((const sr_bf16 *)x + r * ld, c, u->d))
                            : v_at(x + r * ld, c, u->d));
    return (matrix){to, to_ld};
}

/* For what is read once: in place, if it can be. */
static matrix operand(room *room, const float *x, int64_t ld, int64_t rows,
                      const sr_attention_unit *u) {
    return u->bf16 || u->d % 4 != 0 ? copied(room, x, ld, rows, u) : (matrix){x, ld};
}

/* to (d, ld) = x^T for VL rows of x; columns of x up to a multiple of 4 are readable. */
INLINE void transpose_rows(float *to, int64_t ld, matrix x, int64_t d) {
    for (int64_t c = 0; c < d; c += 4) {
        vf row[4];
        for (int i = 0; i < 4; i++) row[i] = v_load_fours(x.at + i * x.ld + c, 4 * x.ld);
        vf low0 = v_interleave_low(row[0], row[1]), low1 = v_interleave_low(row[2], row[3]);
        vf high0 = v_interleave_high(row[0], row[1]), high1 = v_interleave_high(row[2], row[3]);
        vf column[4] = {v_pairs_low(low0, low1), v_pairs_high(low0, low1),
                        v_pairs_low(high0, high1), v_pairs_high(high0, high1)};
        for (int i = 0; i < 4 && c + i < d; i++) v_store(to + (c + i) * ld, column[i]);
    }
}

typedef struct operands {
    room room;
    int64_t n, queries, d, ld; /* ld: of the scores, and of the transposed matrices */
    matrix q, k, v;
    float *kt, *s, *result, *last; /* last: VL rows */
    uint32_t *words;
    score_rule rule;
    feed next;
    bool spread; /* tiles prefetch as well as rows of scores */
} operands;

/* to (d, whole(n)) = x^T, with zeros in the columns n and up. */
static void transpose(operands *o, float *to, matrix x) {
    int64_t r = 0, n = o->n, d = o->d, last_ld = whole(d);
    for (; r + VL <= n; r += VL) transpose_rows(to + r, o->ld, (matrix){x.at + r * x.ld, x.ld}, d);
    if (r == n) return;
    memset(o->last, 0, (size_t)(VL * last_ld) * sizeof *o->last);
    for (int64_t i = r; i < n; i++)
        memcpy(o->last + (i - r) * last_ld, x.at + i * x.ld, (size_t)d * sizeof *x.at);
    transpose_rows(to + r, o->ld, (matrix){o->last, last_ld}, d);
}

static operands gather(const sr_attention_unit *u, bool backward) {
    operands o = {
        .room = {u->room, 0}, .n = u->n, .queries = u->queries, .d = u->d, .ld = whole(u->n)};
    int64_t draws = (u->queries * drop_groups(u->n) + 15) / 16 * 16;
    o.q = (backward ? copied : operand)(&o.room, u->q, u->ldq, u->queries, u);
    o.k = (backward ? copied : operand)(&o.room, u->k, u->ld, u->n, u);
    o.v = (backward ? operand : copied)(&o.room, u->v, u->ld, u->n, u);
    o.next = feed_of(u, backward, u->queries);
    o.spread = backward;
    o.kt = part(&o.room, o.d * o.ld);
    o.last = part(&o.room, VL * whole(o.d));
    o.s = part(&o.room, o.queries * o.ld);
    o.result = part(&o.room, o.n * o.d);
    o.words = (uint32_t *)part(&o.room, 4 * draws);
    o.rule = (score_rule){u->key, draws, u->bf16, 1, 0};
    return o;
}

int64_t SR_SIMD(attention_short_room)(int64_t d, bool backward) {
    enum { N = SR_ATTENTION_SHORT, WORDS = 4 * N * ((N + 63) / 64 * 4) };
    int64_t row = d + VL, square = N * (N + VL);
    return (int64_t)sizeof(float) *
           (((backward ? 8 : 5) * N + VL) * row + 2 * square + WORDS + 256);
}

static feed *feed_of_tiles(operands *o) {
    return o->spread ? &o->next : NULL;
}

/* c (rows, n) = alpha x y^T for some rows of x, given y^T. */
static void scores(float *c, operands *o, matrix x, const float *yt, float alpha, int64_t rows) {
    multiply(&(product){.c = c,
                        .a = x.at,
                        .b = yt,
                        .ldc = o->ld,
                        .a_row = x.ld,
                        .a_k = 1,
                        .ldb = o->ld,
                        .m = rows,
                        .n = o->ld,
                        .k = o->d,
                        .alpha = alpha,
                        .next = feed_of_tiles(o)});
}
static matrix rows_from(matrix x, int64_t row) {
    return (matrix){x.at + row * x.ld, x.ld};
}
static int64_t rows_at(const operands *o, int64_t row) {
    return o->queries - row < ROWS ? o->queries - row : ROWS;
}
static void all_scores(float *c, operands *o, matrix x, const float *yt, float alpha) {
    for (int64_t i = 0; i < o->queries; i += ROWS)
        scores(c + i * o->ld, o, rows_from(x, i), yt, alpha, rows_at(o, i));
}

/* ---- results --------------------------------------------------------------------------------- */

/* Where a product writes a result (n, d), and its rows' distance. */
static float *result_at(operands *o, float *to, int64_t *ld) {
    if (!o->rule.bf16) return to;
    *ld = o->d;
    return o->result;
}

static void deliver(operands *o, float *to, int64_t ld, int64_t rows) {
    for (int64_t r = 0; o->rule.bf16 && r < rows; r++)
        for (int64_t c = 0; c < o->d; c += VL) {
            vh h = v_to_bf16(v_at(o->result + r * o->d, c, o->d));
            int64_t lanes = o->d - c < VL ? o->d - c : VL;
            memcpy((sr_bf16 *)to + r * ld + c, &h, (size_t)lanes * sizeof(sr_bf16));
        }
}

/* to (rows, d) = alpha p x, row i times factor[i] unless NULL. */
static void mix_rows(operands *o, float *to, int64_t ld, const float *p, matrix x, float alpha,
                     const float *factor, int64_t rows) {
    product m = {.a = p,
                 .b = x.at,
                 .factor = factor,
                 .ldc = ld,
                 .a_row = o->ld,
                 .a_k = 1,
                 .ldb = x.ld,
                 .m = rows,
                 .n = o->d,
                 .k = o->n,
                 .alpha = alpha,
                 .next = feed_of_tiles(o)};
    m.c = result_at(o, to, &m.ldc);
    multiply(&m);
    deliver(o, to, ld, rows);
}

/* to (n, d) = alpha p^T x, in strips of rows of p and x, which are of queries. */
static void mix_columns(operands *o, float *to, int64_t ld, const float *p, matrix x, float alpha) {
    product m = {.ldc = ld,
                 .a_row = 1,
                 .a_k = o->ld,
                 .ldb = x.ld,
                 .m = o->n,
                 .n = o->d,
                 .alpha = alpha,
                 .next = feed_of_tiles(o)};
    m.c = result_at(o, to, &m.ldc);
    for (int64_t q = 0; q < o->queries; q += STRIP) {
        m.a = p + q * o->ld, m.b = x.at + q * x.ld, m.add = q > 0;
        m.k = o->queries - q < STRIP ? o->queries - q : STRIP;
        multiply(&m);
    }
    deliver(o, to, ld, o->n);
}

/* ---- the two passes -------------------------------------------------------------------------- */

static void draw(const operands *o, const sr_attention_unit *u, int64_t groups) {
    if (u->key.keep == 256) return;
    drop_words(o->words, o->rule.stride, &u->key, u->position, 0, o->queries, 0, groups);
}

void SR_SIMD(attention_short)(const sr_attention_unit *u) {
    operands o = gather(u, false);
    int64_t n = o.n, groups = drop_groups(n);
    float factor[ROWS];
    transpose(&o, o.kt, o.k);
    draw(&o, u, groups);
    for (int64_t i = 0; i < o.queries; i += ROWS) {
        int64_t rows = rows_at(&o, i), at = i * u->ldo;
        scores(o.s, &o, rows_from(o.q, i), o.kt, score_unit(u), rows);
        hide_keys(u, o.s, o.ld, (span){0, n}, i, rows);
        score_rows s = {
            .s = o.s, .ld = o.ld, .n = n, .groups = groups, .words = o.words + i * groups};
        softmax_rows(&s, &o.rule, rows, false, u->lse + i, factor, &o.next);
        float *to = u->bf16 ? (float *)((sr_bf16 *)u->out + at) : u->out + at;
        mix_rows(&o, to, u->ldo, o.s, o.v, 1, factor, rows);
    }
}

void SR_SIMD(attention_short_backward)(const sr_attention_unit *u) {
    operands o = gather(u, true);
    int64_t n = o.n, queries = o.queries, groups = drop_groups(n);
    matrix out = operand(&o.room, u->out, u->ldo, queries, u);
    matrix dout = copied(&o.room, u->dout, u->ldo, queries, u);
    float *vt = part(&o.room, o.d * o.ld), *ds = part(&o.room, queries * o.ld);
    transpose(&o, o.kt, o.k);
    transpose(&o, vt, o.v);
    all_scores(o.s, &o, o.q, o.kt, score_unit(u));
    hide_keys(u, o.s, o.ld, (span){0, n}, 0, queries);
    all_scores(ds, &o, dout, vt, 1);
    draw(&o, u, groups);
    for (int64_t i = 0; i < queries; i++) {
        take(&o.next, 1);
        derivatives(o.s + i * o.ld, ds + i * o.ld, n, u->lse[i],
                    dot(dout.at + i * dout.ld, out.at + i * out.ld, o.d), &o.rule,
                    o.words + i * groups);
    }
    mix_rows(&o, u->dq, u->ldq, ds, o.k, u->scale, NULL, queries);
    mix_columns(&o, u->dk, u->ld, ds, o.q, u->scale);
    mix_columns(&o, u->dv, u->ld, o.s, dout, 1);
}
