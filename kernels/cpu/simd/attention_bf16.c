/* attention_bf16.c - one sequence and head of packed self-attention on bf16, of any length, for
 * instruction sets that multiply bf16.
 *
 * The sums of attention.c in other blocks: operands stay bf16, P and dS are written as rows of
 * bf16, and only scores, dP and sums are f32.
 *
 * Forward   K^T and V are packed as panels.  A strip of queries: scores, softmax with dropout into
 *           rows of bf16, O = P V.
 * Backward  Q^T, dO^T, Q and dO are packed.  A strip of keys: scores and dP transposed,
 *           derivatives into rows of bf16, dV = P^T dO and dK = dS^T Q whole.  A slab of strips:
 *           dQ += dS K.
 * Numerics  values are rounded to bf16 where attention.c does it; products are summed in f32 and
 *           rounded once.  A unit touches its own rows only, in an order fixed by n and D.
 * Memory    n = 512, D = 64: 0.25 MB forward, 0.75 MB backward, in the second-level cache.
 * Blocking  docs/reference/kernels.md
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/feed.h"
#include "kernels/cpu/simd/scores.h"

#if defined(BF16_TILES) || defined(BF16_DOTS)

enum { STRIP = 32, SLAB = 128, BLOCK = 64 }; /* multiples of two tiles; BLOCK: queries of dQ */

void SR_SIMD(gemm_bf16)(const sr_gemm *g);
void SR_SIMD(gemm_bf16_rows)(const sr_gemm *g);
void SR_SIMD(pack_a_bf16)(void *out, const sr_bf16 *a, int64_t row, int64_t column, int64_t m,
                          int64_t k);
void SR_SIMD(pack_b_bf16)(void *out, const sr_bf16 *b, int64_t row, int64_t column, int64_t k,
                          int64_t n);

/* ---- room ------------------------------------------------------------------------------------ */

/* Elements in a row of Q or dO: whole steps of k in any set. */
INLINE int64_t row_width(int64_t d) {
    return (d + 31) / 32 * 32;
}

/* Stride of rows of P and dS: the columns that products read, and not a multiple of 256 bytes. */
INLINE int64_t row_stride(int64_t n) {
    int64_t ld = row_width(n);
    return ld % 128 == 0 ? ld + 32 : ld;
}

INLINE int64_t draws_stride(int64_t n) {
    return STRIP * drop_groups(n);
}

typedef struct bf16_room {
    sr_bf16 *rows, *p; /* strips of Q, or K and V; of P */
    float *s, *result; /* strips of scores, and of rows of results */
    uint32_t *words;
    sr_bf16 *kt, *v;                  /* forward: panels */
    sr_bf16 *qt, *dout_t, *q, *dout;  /* backward: panels */
    sr_bf16 *derivative, *k, *turned; /* a slab of dS and of K; a block of dS the other way round */
    float *dp, *dq, *lse, *delta;
    int64_t bytes; /* all of it */
} bf16_room;

static void *room_for(bf16_room *r, char *base, int64_t elements, int64_t size) {
    char *at = base + r->bytes;
    r->bytes += (elements * size + 63) / 64 * 64;
    return at;
}

static bf16_room divide_room(void *room, int64_t n, int64_t d, bool backward) {
    enum { BF16 = sizeof(sr_bf16), REAL = sizeof(float) };
    int64_t along_d = padded(n) * bf16_padded(d), along_n = bf16_padded(n) * padded(d);
    int64_t keys = n < SLAB ? (n + STRIP - 1) / STRIP * STRIP : SLAB;
    bf16_room r = {0};
    r.rows = room_for(&r, room, STRIP * row_width(d), BF16);
    r.p = room_for(&r, room, STRIP * row_stride(n), BF16);
    r.s = room_for(&r, room, STRIP * strip_ld(n), REAL);
    r.result = room_for(&r, room, STRIP * padded(d), REAL);
    if (!backward) {
        r.words = room_for(&r, room, 4 * draws_stride(n), sizeof(uint32_t));
        r.kt = room_for(&r, room, along_d, BF16);
        r.v = room_for(&r, room, along_n, BF16);
        return r;
    }
    r.words = room_for(&r, room, 16 * padded(n), sizeof(uint32_t));
    r.qt = room_for(&r, room, along_d, BF16);
    r.dout_t = room_for(&r, room, along_d, BF16);
    r.q = room_for(&r, room, along_n, BF16);
    r.dout = room_for(&r, room, along_n, BF16);
    r.derivative = room_for(&r, room, keys * row_stride(n), BF16);
    r.k = room_for(&r, room, SLAB * padded(d), BF16);
    r.turned = room_for(&r, room, BLOCK * SLAB, BF16);
    r.dp = room_for(&r, room, STRIP * strip_ld(n), REAL);
    r.dq = room_for(&r, room, padded(n) * padded(d), REAL);
    r.lse = room_for(&r, room, padded(n), REAL);
    r.delta = room_for(&r, room, padded(n), REAL);
    return r;
}

int64_t SR_SIMD(attention_bf16_room)(int64_t longest, int64_t d, bool backward) {
    static char nothing[1]; /* only offsets are needed */
    return divide_room(nothing, longest, d, backward).bytes;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A unit's matrices are declared as floats. */
INLINE const sr_bf16 *bf16_at(const float *x, int64_t i) {
    return (const sr_bf16 *)x + i;
}

/* Copies rows of d elements, with zeros up to row_width(d). */
static void copy_rows(sr_bf16 *to, const sr_bf16 *from, int64_t ld, int64_t rows, int64_t d) {
    int64_t width = row_width(d);
    for (int64_t i = 0; i < rows; i++, to += width, from += ld)
        for (int64_t c = 0; c < width; c += VL) {
            vh h = c < d ? h_at(from, c, d) : (vh){0};
            memcpy(to + c, &h, sizeof h);
        }
}

/* Rows that a product reads: in place, at *ld, if they are whole tiles of pairs; else a copy. */
INLINE const sr_bf16 *rows_to_read(sr_bf16 *room, const sr_bf16 *from, int64_t *ld, int64_t rows,
                                   int64_t d) {
#ifdef BF16_DOTS
    if (rows % BF16_ROWS == 0 && d % BF16_K == 0) return from;
#endif
    copy_rows(room, from, *ld, rows, d);
    *ld = row_width(d);
    return room;
}

/* Zeros behind the n columns of rows of P or dS, up to what a product reads. */
static void clear_behind(sr_bf16 *rows, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++, rows += row_stride(n))
        for (int64_t c = n; c < bf16_padded(n); c++) rows[c] = 0;
}

INLINE void round_row(sr_bf16 *to, const float *from, int64_t d, float factor) {
    vf f = v_set(factor);
    for (int64_t c = 0; c < d; c += VL) put_bf16_n(to + c, v_at(from, c, d) * f, d - c);
}

INLINE float dot_bf16(const sr_bf16 *a, const sr_bf16 *b, int64_t n) {
    vf s = v_zero();
    for (int64_t i = 0; i < n; i += VL)
        s = v_fma(v_from_bf16(h_at(a, i, n)), v_from_bf16(h_at(b, i, n)), s);
    return v_sum(s);
}

/* ---- products -------------------------------------------------------------------------------- */

/* c (rows, n) = alpha a b: rows of a are lda apart, b is packed, c has room for whole tiles. */
static void multiply_strip(float *c, int64_t ldc, const sr_bf16 *a, int64_t lda, const sr_bf16 *b,
                           int64_t rows, int64_t n, int64_t k, float alpha) {
    sr_gemm g = {.c = c,
                 .a = a,
                 .b = b,
                 .ldc = ldc,
                 .lda = lda,
                 .m = rows,
                 .n = n,
                 .k = k,
                 .alpha = alpha,
                 .ready = true,
                 .spare = true};
    SR_SIMD(gemm_bf16_rows)(&g);
}

/* The scale of scores is applied to them later, if that is positive as softmax_rows() wants it. */
INLINE float early_scale(const sr_attention_unit *u) {
    return u->scale > 0 ? 1 : u->scale;
}
INLINE float late_scale(const sr_attention_unit *u) {
    return u->scale > 0 ? u->scale : 1;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void forward_strip(const sr_attention_unit *u, const bf16_room *r, int64_t q, feed *next) {
    enum { TOGETHER = 4 };
    int64_t n = u->n, d = u->d, groups = drop_groups(n), ld = strip_ld(n), bf16_ld = row_stride(n);
    int64_t rows = n - q < STRIP ? n - q : STRIP;
    score_rule rule = {u->key, draws_stride(n), true, late_scale(u)};
    float factor[STRIP];
    int64_t q_ld = u->ld;
    const sr_bf16 *q_rows = rows_to_read(r->rows, bf16_at(u->q, q * q_ld), &q_ld, rows, d);
    multiply_strip(r->s, ld, q_rows, q_ld, r->kt, rows, n, d, early_scale(u));
    if (u->key.keep < 256) drop_words(r->words, rule.stride, &u->key, q, rows, groups);
    for (int64_t i = 0; i < rows; i += TOGETHER) {
        take(next, TOGETHER * next->matrices);
        softmax_rows(r->s + i * ld, ld, n, rows - i < TOGETHER ? rows - i : TOGETHER, &rule,
                     r->words + i * groups, groups, u->lse + q + i, factor + i, r->p + i * bf16_ld,
                     bf16_ld);
    }
    clear_behind(r->p, rows, n);
    multiply_strip(r->result, padded(d), r->p, bf16_ld, r->v, rows, d, n, 1);
    for (int64_t i = 0; i < rows; i++)
        round_row((sr_bf16 *)u->out + (q + i) * u->ldo, r->result + i * padded(d), d, factor[i]);
}

void SR_SIMD(attention_bf16)(const sr_attention_unit *u) {
    bf16_room r = divide_room(u->room, u->n, u->d, false);
    feed next = feed_of(u, false);
    SR_SIMD(pack_b_bf16)(r.kt, bf16_at(u->k, 0), 1, u->ld, u->d, u->n);
    SR_SIMD(pack_b_bf16)(r.v, bf16_at(u->v, 0), u->ld, 1, u->n, u->d);
    for (int64_t q = 0; q < u->n; q += STRIP) forward_strip(u, &r, q, &next);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Rows of P^T and dS^T for a key, from its scores and dP. */
static void derivatives_of_key(const sr_attention_unit *u, const bf16_room *r, sr_bf16 *p,
                               sr_bf16 *derivative, const float *s, const float *dp, int64_t key) {
    int64_t n = u->n;
    uint32_t keep = u->key.keep;
    const uint32_t *words = drop_words_at(r->words, padded(n), key);
    int up = 24 - drop_shift(key); /* the byte that decides becomes the highest */
    vf scale = v_set(late_scale(u));
    for (int64_t i = 0; i < n; i += VL) {
        vm kept = v_first(VL);
        if (keep < 256) kept = u_less(u_load(words + i) << up, u_set(keep << 24));
        vf log_p = v_fma(v_load(s + i), scale, -v_load(r->lse + i));
        derivative_lanes l =
            derivatives_of(log_p, v_load(dp + i), v_load(r->delta + i), n - i, kept, keep);
        put_bf16(p + i, l.dropped);
        put_bf16(derivative + i, l.derivative);
    }
}

/* to (rows, d) = factor p b, with rows of P^T or dS^T. */
static void give_rows(const sr_attention_unit *u, const bf16_room *r, sr_bf16 *to, const sr_bf16 *p,
                      const sr_bf16 *b, int64_t rows, float factor) {
    int64_t ld = padded(u->d);
    multiply_strip(r->result, ld, p, row_stride(u->n), b, rows, u->d, u->n, 1);
    for (int64_t i = 0; i < rows; i++) round_row(to + i * u->ld, r->result + i * ld, u->d, factor);
}

/* Keys key .. of a slab whose rows of dS^T begin at `derivative`: their dK and dV. */
static void backward_strip(const sr_attention_unit *u, const bf16_room *r, sr_bf16 *derivative,
                           int64_t key, int64_t rows, feed *next) {
    int64_t n = u->n, d = u->d, ld = strip_ld(n), bf16_ld = row_stride(n), at = key * u->ld;
    int64_t k_ld = u->ld, v_ld = u->ld;
    const sr_bf16 *keys = rows_to_read(r->rows, bf16_at(u->k, at), &k_ld, rows, d);
    multiply_strip(r->s, ld, keys, k_ld, r->qt, rows, n, d, early_scale(u));
    const sr_bf16 *values = rows_to_read(r->rows, bf16_at(u->v, at), &v_ld, rows, d);
    multiply_strip(r->dp, ld, values, v_ld, r->dout_t, rows, n, d, 1);
    if (u->key.keep < 256 && key % 64 == 0)
        drop_words_of_columns(r->words, padded(n), &u->key, key, n);
    for (int64_t i = 0; i < rows; i++) {
        take(next, next->matrices);
        derivatives_of_key(u, r, r->p + i * bf16_ld, derivative + i * bf16_ld, r->s + i * ld,
                           r->dp + i * ld, key + i);
    }
    clear_behind(r->p, rows, n);
    clear_behind(derivative, rows, n);
    give_rows(u, r, (sr_bf16 *)u->dv + at, r->p, r->dout, rows, 1);
    give_rows(u, r, (sr_bf16 *)u->dk + at, derivative, r->q, rows, u->scale);
}

/* Rows q .. of dQ from `keys` keys, which are the last ones if they go to the end. */
static void add_queries(const sr_attention_unit *u, const bf16_room *r, int64_t q, int64_t slab,
                        int64_t keys) {
    int64_t n = u->n, d = u->d, rows = n - q < BLOCK ? n - q : BLOCK;
    float *dq = r->dq + q * padded(d);
    SR_SIMD(pack_a_bf16)(r->turned, r->derivative + q, 1, row_stride(n), rows, keys);
    sr_gemm g = {.c = dq,
                 .a = r->turned,
                 .b = r->k,
                 .ldc = padded(d),
                 .m = rows,
                 .n = d,
                 .k = keys,
                 .alpha = 1,
                 .add = slab > 0,
                 .ready = true,
                 .spare = true};
    SR_SIMD(gemm_bf16)(&g);
    for (int64_t i = 0; slab + keys == n && i < rows; i++)
        round_row((sr_bf16 *)u->dq + (q + i) * u->ld, dq + i * padded(d), d, u->scale);
}

static void backward_slab(const sr_attention_unit *u, const bf16_room *r, int64_t slab,
                          feed *next) {
    int64_t n = u->n, keys = n - slab < SLAB ? n - slab : SLAB;
    for (int64_t at = 0; at < keys; at += STRIP)
        backward_strip(u, r, r->derivative + at * row_stride(n), slab + at,
                       keys - at < STRIP ? keys - at : STRIP, next);
    SR_SIMD(pack_b_bf16)(r->k, bf16_at(u->k, slab * u->ld), u->ld, 1, keys, u->d);
    for (int64_t q = 0; q < n; q += BLOCK) add_queries(u, r, q, slab, keys);
}

static void gather_statistics(const sr_attention_unit *u, const bf16_room *r) {
    for (int64_t i = 0; i < padded(u->n); i++) {
        bool live = i < u->n;
        int64_t at = i * u->ldo;
        r->lse[i] = live ? u->lse[i] : 0;
        r->delta[i] = live ? dot_bf16(bf16_at(u->dout, at), bf16_at(u->out, at), u->d) : 0;
    }
}

void SR_SIMD(attention_bf16_backward)(const sr_attention_unit *u) {
    bf16_room r = divide_room(u->room, u->n, u->d, true);
    feed next = feed_of(u, true);
    SR_SIMD(pack_b_bf16)(r.qt, bf16_at(u->q, 0), 1, u->ld, u->d, u->n);
    SR_SIMD(pack_b_bf16)(r.dout_t, bf16_at(u->dout, 0), 1, u->ldo, u->d, u->n);
    SR_SIMD(pack_b_bf16)(r.q, bf16_at(u->q, 0), u->ld, 1, u->n, u->d);
    SR_SIMD(pack_b_bf16)(r.dout, bf16_at(u->dout, 0), u->ldo, 1, u->n, u->d);
    gather_statistics(u, &r);
    for (int64_t slab = 0; slab < u->n; slab += SLAB) backward_slab(u, &r, slab, &next);
}

#else

/* Other sets widen to f32: kernels/cpu/attention.c does not call these. */
int64_t SR_SIMD(attention_bf16_room)(int64_t longest, int64_t d, bool backward) {
    (void)longest, (void)d, (void)backward;
    return 0;
}
void SR_SIMD(attention_bf16)(const sr_attention_unit *u) {
    (void)u;
}
void SR_SIMD(attention_bf16_backward)(const sr_attention_unit *u) {
    (void)u;
}

#endif
