/* attention.c - one sequence and head of packed self-attention, forward and backward.
 *
 * A strip of query rows at a time visits the keys that it sees, so softmax is one pass over a row;
 * memory is O(n D + STRIP keys), never n^2.  Backward takes BLOCK keys at a time, which stay in the
 * second-level cache with all that is computed from them: 1.1 MB with D = 64.
 *
 * Forward   K is packed as panels of K^T, V as panels of V.  A strip: S = scale Q K^T, row maximum,
 *           exp, sum, keyed dropout in place, O = P V, rows scaled by 1 / sum.
 * Backward  a strip: P again from S and lse, dP = dO V^T, dS = P (Z r dP - delta) with delta =
 *           <dO, O>, dQ += scale dS K, and dK += scale dS^T Q, dV += (Z r P)^T dO in order.
 * Windows   a strip takes the part of the panels that its rows see (scores.h), rounded to EDGE;
 *           scores that are in it but unseen become -inf.  Where windows are small a strip has few
 *           rows, which see little in common, and forward packs what BLOCK rows see.
 * Work      4 D flops forward, 10 D backward for each pair of a query and a key of the strips, in
 *           the tiles of gemm.c; exp and dropout cost about 30 instructions per vector of P.
 * Numerics  all f32; on bf16 tensors exp, Z r P and dS are rounded to bf16 before they are
 *           multiplied, and the sum is of the unrounded values.  lse = maximum + log(sum), natural;
 *           sums exclude dropout.  A unit reads and writes its own rows only, in an order fixed by
 *           n, D and what rows see.
 */
#include "kernels/cpu/simd/scores.h"

/* Rows of a strip, forward and in small windows, whose scores stay in the first-level cache, and
 * backward: multiples of every TILE_M.  Keys of a block: a multiple of the columns of a draw. */
enum { STRIP = 48, LOW = 16, FORWARD = 8, BLOCK = 512 };

void SR_SIMD(gemm_rows)(const sr_gemm *g);
void SR_SIMD(gemm_columns)(const sr_gemm *g);
void SR_SIMD(pack_b)(float *out, const float *b, int64_t row, int64_t column, int64_t k, int64_t n);

/* ---- room ------------------------------------------------------------------------------------ */

INLINE bool is_narrow(const sr_attention_unit *u) {
    return sr_attention_is_partial(u) && u->position == NULL && u->before + u->after < 4 * STRIP;
}
INLINE int64_t strip_rows(const sr_attention_unit *u, bool backward) {
    return is_narrow(u) ? LOW : backward ? STRIP : FORWARD;
}

/* Queries whose keys are packed together. */
INLINE int64_t group_rows(const sr_attention_unit *u) {
    return is_narrow(u) && u->n > BLOCK ? BLOCK : u->n;
}

INLINE int64_t most_packed(const sr_attention_unit *u, bool backward) {
    if (backward) return u->n < BLOCK ? u->n : BLOCK;
    return most_seen(u, group_rows(u));
}

/* Columns of a strip of scores. */
INLINE int64_t strip_width(const sr_attention_unit *u, bool backward) {
    int64_t most = most_seen(u, strip_rows(u, backward));
    return backward && most > BLOCK ? BLOCK : most;
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
    int64_t n = most_packed(u, backward), d = u->d, width = strip_width(u, backward);
    room r = {.ld = strip_ld(width), .stride = word_stride(width)};
    char *at = base;
    r.kt = part(&r, at, padded(n) * d);
    r.panels = part(&r, at, n * padded(d));
    r.s = part(&r, at, STRIP * r.ld);
    r.rows = part(&r, at, STRIP * d);
    r.words = (uint32_t *)part(&r, at, 4 * r.stride);
    if (!backward) return r;
    int64_t sums = u->members > 1 ? u->n : n;
    r.vt = part(&r, at, padded(n) * d);
    r.ds = part(&r, at, STRIP * r.ld);
    r.dk = part(&r, at, sums * d);
    r.dv = part(&r, at, sums * d);
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
    int64_t row, rows;     /* of queries */
    span keys;             /* those of the packed keys that it sees */
    int64_t first, packed; /* of the packed keys, and their number */
    int64_t width, groups; /* keys; of draws in a row */
    score_rule rule;
} strip;

/* The strip of queries from `row` on. */
static strip strip_at(const sr_attention_unit *u, const room *r, int64_t row, span packed,
                      bool backward) {
    int64_t left = u->queries - row, most = strip_rows(u, backward);
    strip t = {.row = row, .rows = left < most ? left : most};
    t.keys = span_in(keys_seen(u, row, t.rows), packed);
    t.first = packed.from, t.packed = packed.to - packed.from;
    t.width = t.keys.to - t.keys.from;
    t.groups = words_across(t.keys);
    t.rule = (score_rule){u->key, r->stride, u->bf16, 1, t.keys.from - words_from(t.keys)};
    return t;
}

/* Copies `rows` rows of d floats contiguously, with zeros up to a full tile. */
static void copy_strip(float *to, const float *from, int64_t ld, int64_t rows, int64_t d) {
    for (int64_t i = 0; i < rows; i++) memcpy(to + i * d, from + i * ld, (size_t)d * sizeof *to);
    int64_t all = (rows + TILE_M - 1) / TILE_M * TILE_M;
    memset(to + rows * d, 0, (size_t)((all - rows) * d) * sizeof *to);
}

/* Zeros behind the columns of a strip, as far as tiles read. */
static void clear_tails(float *s, int64_t ld, int64_t rows, int64_t width) {
    for (int64_t i = 0; width < padded(width) && i < rows; i++)
        memset(s + i * ld + width, 0, (size_t)(padded(width) - width) * sizeof *s);
}

/* c (rows, keys) = alpha rows x^T, given the panels of x^T */
static void multiply_transposed(float *c, const sr_attention_unit *u, const room *r, const strip *t,
                                const float *rows, const float *panels, float alpha) {
    sr_gemm g = {.c = c,
                 .a = rows,
                 .b = panels,
                 .part = {u->d, t->packed, 0, t->keys.from - t->first},
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
    multiply_transposed(r->s, u, r, t, r->rows, r->kt, score_unit(u));
    hide_keys(u, r->s, r->ld, t->keys, t->row, t->rows);
    if (u->key.keep < 256)
        drop_words(r->words, r->stride, &u->key, u->position, t->row, t->rows, words_from(t->keys),
                   t->groups);
}

/* c (rows, d) = or += alpha s x, given the panels of x */
static void mix(float *c, int64_t ldc, const sr_attention_unit *u, const room *r, const strip *t,
                const float *s, float alpha, bool add) {
    sr_gemm g = {.c = c,
                 .a = s,
                 .b = r->panels,
                 .part = {t->packed, u->d, t->keys.from - t->first, 0},
                 .ldc = ldc,
                 .lda = r->ld,
                 .m = t->rows,
                 .n = u->d,
                 .k = t->width,
                 .alpha = alpha,
                 .add = add};
    SR_SIMD(gemm_rows)(&g);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void scale_row(float *x, int64_t n, float factor) {
    vf f = v_set(factor);
    for (int64_t i = 0; i < n; i += VL) v_put(x, i, n, v_at(x, i, n) * f);
}

static void forward_strip(const sr_attention_unit *u, const room *r, int64_t q, span packed,
                          feed *next) {
    strip t = strip_at(u, r, q, packed, false);
    float factor[STRIP], *out = u->out + q * u->ldo;
    copy_strip(r->rows, u->q + q * u->ldq, u->ldq, t.rows, u->d);
    scores(u, r, &t);
    score_rows s = {.s = r->s, .ld = r->ld, .n = t.width, .groups = t.groups, .words = r->words};
    softmax_rows(&s, &t.rule, t.rows, false, u->lse + q, factor, next);
    mix(out, u->ldo, u, r, &t, r->s, 1, false);
    for (int64_t i = 0; i < t.rows; i++) scale_row(out + i * u->ldo, u->d, factor[i]);
}

void SR_SIMD(attention)(const sr_attention_unit *u) {
    int64_t end = u->queries, group = group_rows(u), step = strip_rows(u, false);
    room r = lay_out(u->room, u, false);
    feed next = feed_of(u, false, u->queries);
    memset(r.s, 0, (size_t)(STRIP * r.ld) * sizeof *r.s);
    for (int64_t from = 0; from < end; from += group) {
        int64_t to = end - from < group ? end : from + group;
        span keys = keys_seen(u, from, to - from);
        int64_t at = keys.from * u->ld, count = keys.to - keys.from;
        SR_SIMD(pack_b)(r.kt, u->k + at, 1, u->ld, u->d, count);
        SR_SIMD(pack_b)(r.panels, u->v + at, u->ld, 1, count, u->d);
        for (int64_t q = from; q < to; q += step) forward_strip(u, &r, q, keys, &next);
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Where the sums of gradients of the packed keys begin: members share those of all keys. */
INLINE int64_t sums_at(const sr_attention_unit *u, const strip *t, int64_t key) {
    return (u->members > 1 ? key : key - t->first) * u->d;
}

/* c += alpha strip^T rows, in the rows of the strip's keys */
static void add_transposed(float *c, const float *s, const float *row_panels,
                           const sr_attention_unit *u, const room *r, const strip *t, float alpha,
                           bool add) {
    sr_gemm g = {.c = c + sums_at(u, t, t->keys.from),
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

/* `add`: to dK and dV; dQ is begun by the first keys that the strip sees. */
static void backward_strip(const sr_attention_unit *u, const room *r, int64_t q, span block,
                           bool add, feed *next) {
    strip t = strip_at(u, r, q, block, true);
    if (t.width == 0) return;
    int64_t d = u->d, rows = t.rows;
    bool begun = keys_seen(u, q, rows).from < block.from;
    const float *dout = u->dout + q * u->ldo, *out = u->out + q * u->ldo;
    copy_strip(r->rows, u->q + q * u->ldq, u->ldq, rows, d);
    copy_strip(r->drows, dout, u->ldo, rows, d);
    scores(u, r, &t);
    multiply_transposed(r->ds, u, r, &t, r->drows, r->vt, 1);
    for (int64_t i = 0; i < rows; i++) {
        take(next, 1);
        derivatives(r->s + i * r->ld, r->ds + i * r->ld, t.width, u->lse[q + i],
                    dot(dout + i * u->ldo, out + i * u->ldo, d), &t.rule, r->words + i * t.groups);
    }
    mix(u->dq + q * u->ldq, u->ldq, u, r, &t, r->ds, u->scale, begun);
    SR_SIMD(pack_b)(r->row_panels, r->rows, d, 1, rows, d);
    SR_SIMD(pack_b)(r->drow_panels, r->drows, d, 1, rows, d);
    add_transposed(r->dk, r->ds, r->row_panels, u, r, &t, u->scale, add);
    add_transposed(r->dv, r->s, r->drow_panels, u, r, &t, 1.0f, add);
    clear_tails(r->s, r->ld, rows, t.width), clear_tails(r->ds, r->ld, rows, t.width);
}

/* Packs a block of keys; sums of gradients start at zero where the first strip does not write all
 * of them. */
static void begin_block(const sr_attention_unit *u, const room *r, span block) {
    int64_t keys = block.to - block.from, d = u->d, at = block.from * u->ld;
    SR_SIMD(pack_b)(r->kt, u->k + at, 1, u->ld, d, keys);
    SR_SIMD(pack_b)(r->vt, u->v + at, 1, u->ld, d, keys);
    SR_SIMD(pack_b)(r->panels, u->k + at, u->ld, 1, keys, d);
    if (u->member > 0 || !sr_attention_is_partial(u)) return;
    int64_t from = u->members > 1 ? block.from * d : 0;
    memset(r->dk + from, 0, (size_t)(keys * d) * sizeof *r->dk);
    memset(r->dv + from, 0, (size_t)(keys * d) * sizeof *r->dv);
}

static void give_block(const sr_attention_unit *u, const room *r, span block) {
    int64_t d = u->d, from = u->members > 1 ? 0 : block.from;
    for (int64_t i = block.from; i < block.to; i++) {
        memcpy(u->dk + i * u->ld, r->dk + (i - from) * d, (size_t)d * sizeof *r->dk);
        memcpy(u->dv + i * u->ld, r->dv + (i - from) * d, (size_t)d * sizeof *r->dv);
    }
}

/* The strips that see any of the block's keys. */
static void backward_block(const sr_attention_unit *u, const room *r, span block, feed *next) {
    span rows = queries_seeing(u, block.from, block.to - block.from);
    int64_t step = strip_rows(u, true), first = rows.from / step * step;
    bool written = u->member > 0 || sr_attention_is_partial(u);
    begin_block(u, r, block);
    for (int64_t q = first; q < rows.to; q += step)
        backward_strip(u, r, q, block, q > first || written, next);
    if (u->member == u->members - 1) give_block(u, r, block);
}

void SR_SIMD(attention_backward)(const sr_attention_unit *u) {
    int64_t n = u->n, step = n < BLOCK ? n : BLOCK;
    room r = lay_out(u->room, u, true);
    feed next = feed_of(u, true, u->queries);
    memset(r.s, 0, (size_t)(STRIP * r.ld) * sizeof *r.s);
    memset(r.ds, 0, (size_t)(STRIP * r.ld) * sizeof *r.ds);
    for (int64_t key = 0; key < n; key += step)
        backward_block(u, &r, (span){key, n - key < step ? n : key + step}, &next);
}
