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
 * Windows   a strip takes the part of the panels that its queries see, or the queries that see its
 *           keys, rounded to EDGE (scores.h); scores that are in it but unseen become -inf.  A slab
 *           takes whole blocks of queries, where dS of a strip that they do not see is 0.
 * Numerics  values are rounded to bf16 where attention.c does it; products are summed in f32 and
 *           rounded once.  A unit touches its own rows only, in an order fixed by n, D and what
 *           rows see.
 * Memory    n = 512, D = 64: 0.25 MB forward, 0.75 MB backward, in the second-level cache.
 * Blocking  docs/reference/kernels.md
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/feed.h"
#include "kernels/cpu/simd/scores.h"

#if defined(BF16_TILES) || defined(BF16_DOTS)

/* Multiples of two tiles; BLOCK: queries of dQ; NARROW: a slab of small windows.  PART: rows of a
 * strip that have scores at a time, which then stay in the first-level cache. */
enum { STRIP = 32, SLAB = 128, NARROW = 64, BLOCK = 64 };
#ifdef BF16_TILES
enum { PART = STRIP };
#else
enum { PART = 8 };
#endif

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

INLINE int64_t slab_size(const sr_attention_unit *u) {
    return sr_attention_is_partial(u) && u->before + u->after < 4 * SLAB ? NARROW : SLAB;
}

/* Columns of scores: of a strip of queries, or of a slab of keys. */
INLINE int64_t most_columns(const sr_attention_unit *u, bool backward) {
    return most_seen(u, backward ? slab_size(u) + 2 * BLOCK : STRIP);
}

typedef struct bf16_room {
    sr_bf16 *rows, *p; /* strips of Q, or K and V; of P */
    float *s, *result; /* strips of scores, and of rows of results */
    uint32_t *words;
    sr_bf16 *kt, *v;                  /* forward: panels */
    sr_bf16 *qt, *dout_t, *q, *dout;  /* backward: panels */
    sr_bf16 *derivative, *k, *turned; /* a slab of dS and of K; a block of dS the other way round */
    float *dp, *dq, *lse, *delta;     /* lse: to base 2 */
    float *dk, *dv;                   /* sums over the members of a unit, if there are several */
    int64_t ld, p_ld, draws;          /* strides of rows of s and dp; of P and dS; of words */
    int64_t bytes;                    /* all of it */
} bf16_room;

static void *room_for(bf16_room *r, char *base, int64_t elements, int64_t size) {
    char *at = base + r->bytes;
    r->bytes += (elements * size + 63) / 64 * 64;
    return at;
}

static bf16_room divide_room(void *room, const sr_attention_unit *u, bool backward) {
    enum { BF16 = sizeof(sr_bf16), REAL = sizeof(float) };
    int64_t n = u->n, d = u->d, width = most_columns(u, backward);
    int64_t along_d = padded(n) * bf16_padded(d), along_n = bf16_padded(n) * padded(d);
    int64_t keys = n < SLAB ? (n + STRIP - 1) / STRIP * STRIP : SLAB;
    bf16_room r = {.ld = strip_ld(width), .p_ld = row_stride(width)};
    r.draws = backward ? padded(width) : STRIP * (drop_groups(width) + 4);
    r.rows = room_for(&r, room, STRIP * row_width(d), BF16);
    r.p = room_for(&r, room, STRIP * r.p_ld, BF16);
    r.s = room_for(&r, room, PART * r.ld, REAL);
    r.result = room_for(&r, room, STRIP * padded(d), REAL);
    r.words = room_for(&r, room, (backward ? 16 : 4) * r.draws, sizeof(uint32_t));
    if (!backward) {
        r.kt = room_for(&r, room, along_d, BF16);
        r.v = room_for(&r, room, along_n, BF16);
        return r;
    }
    r.qt = room_for(&r, room, along_d, BF16);
    r.dout_t = room_for(&r, room, along_d, BF16);
    r.q = room_for(&r, room, along_n, BF16);
    r.dout = room_for(&r, room, along_n, BF16);
    r.derivative = room_for(&r, room, keys * r.p_ld, BF16);
    r.k = room_for(&r, room, SLAB * padded(d), BF16);
    r.turned = room_for(&r, room, BLOCK * SLAB, BF16);
    r.dp = room_for(&r, room, PART * r.ld, REAL);
    r.dq = room_for(&r, room, padded(n) * padded(d), REAL);
    r.lse = room_for(&r, room, padded(n), REAL);
    r.delta = room_for(&r, room, padded(n), REAL);
    if (u->members == 1) return r;
    r.dk = room_for(&r, room, n * padded(d), REAL);
    r.dv = room_for(&r, room, n * padded(d), REAL);
    return r;
}

int64_t SR_SIMD(attention_bf16_room)(const sr_attention_unit *longest, bool backward) {
    static char nothing[1]; /* only offsets are needed */
    return divide_room(nothing, longest, backward).bytes;
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
static void clear_behind(sr_bf16 *rows, int64_t ld, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; i++, rows += ld)
        for (int64_t c = n; c < bf16_padded(n); c++) rows[c] = 0;
}

INLINE void round_row(sr_bf16 *to, const float *from, int64_t d, float factor) {
    vf f = v_set(factor);
    for (int64_t c = 0; c < d; c += VL) put_bf16_n(to + c, v_at(from, c, d) * f, d - c);
}

/* The product of two rows, as lanes to be added up. */
INLINE vf dot_bf16(const sr_bf16 *a, const sr_bf16 *b, int64_t n) {
    vf s = v_zero();
    for (int64_t i = 0; i < n; i += VL)
        s = v_fma(v_from_bf16(h_at(a, i, n)), v_from_bf16(h_at(b, i, n)), s);
    return s;
}

/* ---- products -------------------------------------------------------------------------------- */

/* c (rows, n) = alpha a b: rows of a are lda apart, b is a part of panels, c has room for whole
 * tiles. */
static void multiply_strip(float *c, int64_t ldc, const sr_bf16 *a, int64_t lda, const sr_bf16 *b,
                           sr_slab part, int64_t rows, int64_t n, int64_t k, float alpha) {
    sr_gemm g = {.c = c,
                 .a = a,
                 .b = b,
                 .part = part,
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

/* The scale of scores is applied to them later, if it is positive: maxima are found before. */
INLINE float early_scale(const sr_attention_unit *u) {
    return u->scale > 0 ? 1 : u->scale;
}
INLINE float late_unit(const sr_attention_unit *u) {
    return (u->scale > 0 ? u->scale : 1) * LOG2_E;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void forward_strip(const sr_attention_unit *u, const bf16_room *r, int64_t q, feed *next) {
    int64_t n = u->n, d = u->d, ld = r->ld, p_ld = r->p_ld, q_ld = u->ldq;
    int64_t rows = u->queries - q < STRIP ? u->queries - q : STRIP;
    span keys = keys_seen(u, q, rows);
    int64_t width = keys.to - keys.from, groups = words_across(keys);
    score_rule rule = {u->key, r->draws, true, late_unit(u), keys.from - words_from(keys)};
    float factor[STRIP];
    const sr_bf16 *q_rows = rows_to_read(r->rows, bf16_at(u->q, q * q_ld), &q_ld, rows, d);
    if (u->key.keep < 256)
        drop_words(r->words, rule.stride, &u->key, u->position, q, rows, words_from(keys), groups);
    for (int64_t i = 0; i < rows; i += PART) {
        int64_t some = rows - i < PART ? rows - i : PART;
        multiply_strip(r->s, ld, q_rows + i * q_ld, q_ld, r->kt, (sr_slab){d, n, 0, keys.from},
                       some, width, d, early_scale(u));
        hide_keys(u, r->s, ld, keys, q + i, some);
        score_rows s = {r->s, ld, width, groups, r->words + i * groups, r->p + i * p_ld, p_ld};
        softmax_rows(&s, &rule, some, true, u->lse + q + i, factor + i, next);
    }
    clear_behind(r->p, p_ld, rows, width);
    multiply_strip(r->result, padded(d), r->p, p_ld, r->v, (sr_slab){n, d, keys.from, 0}, rows, d,
                   width, 1);
    for (int64_t i = 0; i < rows; i++)
        round_row((sr_bf16 *)u->out + (q + i) * u->ldo, r->result + i * padded(d), d, factor[i]);
}

void SR_SIMD(attention_bf16)(const sr_attention_unit *u) {
    bf16_room r = divide_room(u->room, u, false);
    feed next = feed_of(u, false, u->queries);
    SR_SIMD(pack_b_bf16)(r.kt, bf16_at(u->k, 0), 1, u->ld, u->d, u->n);
    SR_SIMD(pack_b_bf16)(r.v, bf16_at(u->v, 0), u->ld, 1, u->n, u->d);
    for (int64_t q = 0; q < u->queries; q += STRIP) forward_strip(u, &r, q, &next);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A slab: its keys, and the whole blocks of queries that see any of them.  Column 0 of P^T, dS^T,
 * scores and draws is the first of these queries. */
typedef struct slab {
    int64_t key, keys;
    span queries;
} slab;

/* A strip of a slab: its first key, their number, and the queries that see any of them. */
typedef struct strip {
    int64_t key, rows;
    span queries;
    int64_t at, width; /* its first column of the slab; columns */
} strip;

static slab slab_at(const sr_attention_unit *u, int64_t key) {
    int64_t n = u->n, size = slab_size(u), keys = n - key < size ? n - key : size;
    span s = queries_seeing(u, key, keys);
    int64_t to = (s.to + BLOCK - 1) / BLOCK * BLOCK;
    return (slab){key, keys, {s.from / BLOCK * BLOCK, to < u->queries ? to : u->queries}};
}

static strip strip_of(const sr_attention_unit *u, const slab *s, int64_t at) {
    strip t = {.key = s->key + at, .rows = s->keys - at < STRIP ? s->keys - at : STRIP};
    t.queries = queries_seeing(u, t.key, t.rows);
    if (t.queries.from >= s->queries.to) { /* none of the slab's: some that are all hidden */
        int64_t end = s->queries.from + EDGE;
        t.queries = (span){s->queries.from, end < s->queries.to ? end : s->queries.to};
    }
    t.at = t.queries.from - s->queries.from;
    t.width = t.queries.to - t.queries.from;
    return t;
}

/* Rows of P^T and dS^T for a key, from its scores and dP. */
static void derivatives_of_key(const sr_attention_unit *u, const bf16_room *r, const strip *t,
                               sr_bf16 *derivative, int64_t row) {
    int64_t n = t->width, key = t->key + row, from = t->queries.from, at = row % PART * r->ld;
    uint32_t keep = u->key.keep;
    const float *s = r->s + at, *dp = r->dp + at;
    const float *lse = r->lse + from, *delta = r->delta + from;
    sr_bf16 *p = r->p + row * r->p_ld;
    const uint32_t *words = drop_words_at(r->words, r->draws, key) + t->at;
    int up = 24 - drop_shift(key); /* the byte that decides becomes the highest */
    vf unit = v_set(late_unit(u));
    for (int64_t i = 0; i < n; i += VL) {
        vm kept = v_first(VL);
        if (keep < 256) kept = u_less(u_load(words + i) << up, u_set(keep << 24));
        vf log_p = v_fma(v_load(s + i), unit, -v_load(lse + i));
        derivative_lanes l =
            derivatives_of(log_p, v_load(dp + i), v_load(delta + i), n - i, kept, keep, true);
        put_bf16(p + i, l.dropped);
        put_bf16(derivative + i, l.derivative);
    }
}

/* x += sum, or x = sum if this is the first one. */
INLINE void keep_sum(float *x, const float *sum, int64_t d, bool first) {
    for (int64_t c = 0; c < padded(d); c += VL)
        v_store(x + c, first ? v_load(sum + c) : v_load(x + c) + v_load(sum + c));
}

/* to (rows, d) = factor p b, with rows of P^T or dS^T; where k and v are shared, the sum over the
 * members, which `sums` keeps. */
static void give_rows(const sr_attention_unit *u, const bf16_room *r, const strip *t, sr_bf16 *to,
                      float *sums, const sr_bf16 *p, const sr_bf16 *b, float factor) {
    int64_t ld = padded(u->d);
    multiply_strip(r->result, ld, p, r->p_ld, b, (sr_slab){u->queries, u->d, t->queries.from, 0},
                   t->rows, u->d, t->width, 1);
    for (int64_t i = 0; i < t->rows; i++) {
        float *sum = r->result + i * ld;
        if (u->members > 1) {
            float *kept = sums + (t->key + i) * ld;
            keep_sum(kept, sum, u->d, u->member == 0);
            sum = kept;
        }
        if (u->member == u->members - 1) round_row(to + (t->key + i) * u->ld, sum, u->d, factor);
    }
}

/* Scores and dP of `rows` keys of a strip, from `row` on. */
static void strip_products(const sr_attention_unit *u, const bf16_room *r, const strip *t,
                           int64_t row, int64_t rows) {
    int64_t d = u->d, key = t->key + row, at = key * u->ld, k_ld = u->ld, v_ld = u->ld;
    sr_slab part = {d, u->queries, 0, t->queries.from};
    const sr_bf16 *keys = rows_to_read(r->rows, bf16_at(u->k, at), &k_ld, rows, d);
    multiply_strip(r->s, r->ld, keys, k_ld, r->qt, part, rows, t->width, d, early_scale(u));
    const sr_bf16 *values = rows_to_read(r->rows, bf16_at(u->v, at), &v_ld, rows, d);
    multiply_strip(r->dp, r->ld, values, v_ld, r->dout_t, part, rows, t->width, d, 1);
    hide_queries(u, r->s, r->ld, t->queries, key, rows);
}

/* Zeros in the columns of the slab that are not the strip's. */
static void clear_unseen(sr_bf16 *row, const slab *s, const strip *t) {
    int64_t behind = t->at + t->width, all = s->queries.to - s->queries.from;
    memset(row, 0, (size_t)t->at * sizeof *row);
    memset(row + behind, 0, (size_t)(all - behind) * sizeof *row);
}

/* dK and dV of a strip, whose rows of dS^T begin at `derivative`. */
static void backward_strip(const sr_attention_unit *u, const bf16_room *r, const slab *s,
                           int64_t at, feed *next) {
    strip t = strip_of(u, s, at);
    sr_bf16 *derivative = r->derivative + at * r->p_ld;
    if (u->key.keep < 256 && t.key % 64 == 0)
        drop_words_of_columns(r->words, r->draws, &u->key, u->position, t.key, s->queries.from,
                              s->queries.to - s->queries.from);
    for (int64_t i = 0; i < t.rows; i++) {
        if (i % PART == 0) strip_products(u, r, &t, i, t.rows - i < PART ? t.rows - i : PART);
        take(next, 1);
        derivatives_of_key(u, r, &t, derivative + i * r->p_ld + t.at, i);
        clear_unseen(derivative + i * r->p_ld, s, &t);
    }
    clear_behind(r->p, r->p_ld, t.rows, t.width);
    clear_behind(derivative + t.at, r->p_ld, t.rows, t.width);
    give_rows(u, r, &t, (sr_bf16 *)u->dv, r->dv, r->p, r->dout, 1);
    give_rows(u, r, &t, (sr_bf16 *)u->dk, r->dk, derivative + t.at, r->q, u->scale);
}

/* Rows q .. of dQ from the keys of a slab; `last`: they see no later slab. */
static void add_queries(const sr_attention_unit *u, const bf16_room *r, int64_t q, const slab *s,
                        bool add, bool last) {
    int64_t d = u->d, rows = u->queries - q < BLOCK ? u->queries - q : BLOCK;
    float *dq = r->dq + q * padded(d);
    SR_SIMD(pack_a_bf16)(r->turned, r->derivative + q - s->queries.from, 1, r->p_ld, rows, s->keys);
    sr_gemm g = {.c = dq,
                 .a = r->turned,
                 .b = r->k,
                 .ldc = padded(d),
                 .m = rows,
                 .n = d,
                 .k = s->keys,
                 .alpha = 1,
                 .add = add,
                 .ready = true,
                 .spare = true};
    SR_SIMD(gemm_bf16)(&g);
    for (int64_t i = 0; last && i < rows; i++)
        round_row((sr_bf16 *)u->dq + (q + i) * u->ldq, dq + i * padded(d), d, u->scale);
}

/* `begun`: queries below have sums of earlier slabs. */
static void backward_slab(const sr_attention_unit *u, const bf16_room *r, const slab *s,
                          int64_t begun, feed *next) {
    int64_t after = s->key + s->keys;
    int64_t open = after < u->n ? slab_at(u, after).queries.from : u->queries;
    for (int64_t at = 0; at < s->keys; at += STRIP) backward_strip(u, r, s, at, next);
    SR_SIMD(pack_b_bf16)(r->k, bf16_at(u->k, s->key * u->ld), u->ld, 1, s->keys, u->d);
    for (int64_t q = s->queries.from; q < s->queries.to; q += BLOCK)
        add_queries(u, r, q, s, q < begun, q < open);
}

static void gather_statistics(const sr_attention_unit *u, const bf16_room *r) {
    for (int64_t i = 0; i < padded(u->queries); i += 4) {
        vf s[4];
        for (int64_t k = 0; k < 4; k++) {
            bool live = i + k < u->queries;
            int64_t at = (i + k) * u->ldo;
            r->lse[i + k] = live ? u->lse[i + k] * LOG2_E : 0;
            s[k] = live ? dot_bf16(bf16_at(u->dout, at), bf16_at(u->out, at), u->d) : v_zero();
        }
        quad delta = v_sums(s[0], s[1], s[2], s[3]);
        memcpy(r->delta + i, &delta, sizeof delta);
    }
}

void SR_SIMD(attention_bf16_backward)(const sr_attention_unit *u) {
    bf16_room r = divide_room(u->room, u, true);
    feed next = feed_of(u, true, u->n);
    int64_t queries = u->queries;
    SR_SIMD(pack_b_bf16)(r.qt, bf16_at(u->q, 0), 1, u->ldq, u->d, queries);
    SR_SIMD(pack_b_bf16)(r.dout_t, bf16_at(u->dout, 0), 1, u->ldo, u->d, queries);
    SR_SIMD(pack_b_bf16)(r.q, bf16_at(u->q, 0), u->ldq, 1, queries, u->d);
    SR_SIMD(pack_b_bf16)(r.dout, bf16_at(u->dout, 0), u->ldo, 1, queries, u->d);
    gather_statistics(u, &r);
    int64_t begun = 0;
    for (int64_t key = 0; key < u->n; key += slab_size(u)) {
        slab s = slab_at(u, key);
        backward_slab(u, &r, &s, begun, &next);
        begun = s.queries.to;
    }
}

#else

/* Other sets widen to f32: kernels/cpu/attention.c does not call these. */
int64_t SR_SIMD(attention_bf16_room)(const sr_attention_unit *longest, bool backward) {
    (void)longest, (void)backward;
    return 0;
}
void SR_SIMD(attention_bf16)(const sr_attention_unit *u) {
    (void)u;
}
void SR_SIMD(attention_bf16_backward)(const sr_attention_unit *u) {
    (void)u;
}

#endif
