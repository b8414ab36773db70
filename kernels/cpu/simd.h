/* simd.h - the vector kernels, one set per instruction set.
 *
 * They are in kernels/cpu/simd/NAME.c, written once and compiled for every set; table.c collects
 * the functions of a set.  A device selects its set when it is opened, by CPUID bits and the
 * registers that the operating system saves (XGETBV), never by processor model.
 * SEQRUN_ISA=plain|avx2|avx512|avx512_bf16|amx in the environment requests a lower set, so that
 * tests cover all.
 *
 * These functions do not allocate, fail or use threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/tensor/backend.h"

SR_BEGIN_C

/* Which part of a matrix in panels is B: from this row and column on.  Rows are a multiple of
 * bf16_k in bf16, columns of 16. */
typedef struct sr_slab {
    int64_t rows, columns; /* of the whole matrix; 0: it is B */
    int64_t row, column;
} sr_slab;

/* What becomes of C in bf16: y = act(C + bias), rounded, and pre = C + bias. */
typedef struct sr_rounded {
    sr_bf16 *y, *pre;    /* rows `ld` apart; y is NULL: C stays floats; pre may be NULL */
    const sr_bf16 *bias; /* or NULL */
    int64_t ld;
    sr_act act;
} sr_rounded;

/* C (m, n) = or += alpha A (m, k) B (k, n).  B is packed in panels (pack_b); A, by the name of the
 * function: packed by pack_a, rows (lda apart) or columns (lda apart).  For rows and columns, A
 * must be readable up to a multiple of tile_rows rows. */
typedef struct sr_gemm {
    float *c;
    const void *a, *b; /* floats, or bf16 for gemm_bf16 */
    sr_slab part;
    const sr_bf16 *tail; /* gemm_bf16_rows on tiles: the last k % bf16_k columns of A, as
                            pack_a_bf16 lays them out; NULL: rows of A have zeros up to bf16_k */
    sr_rounded rounded;  /* for sets that have bf16_rounds: C is only read, if `add` */
    int64_t ldc, lda, m, n, k;
    float alpha;
    bool add;
    bool ready; /* bf16: called between bf16_begin() and bf16_end() */
    bool spare; /* tiles: C may be written up to multiples of 16 rows and columns */
} sr_gemm;

/* Large products on tiles: C (m, n) = or += A (m, k) B (k, n), with whole k.
 * B is panels of 32 columns, as panels_of_rows and panel_of_columns write them.  A is rows, or
 * tiles as tiles_across writes them, [m / 16][k / 32]; k of tiles is a multiple of 32. */
enum { SR_STRIP_ROWS = 48, SR_STRIP_COLUMNS = 32 };
typedef struct sr_strips {
    const void *a, *b;
    int64_t a_row;  /* bytes from a row of A to the next; 0: tiles */
    int64_t a_tile; /* tiles: bytes from 16 rows of A to the next 16 */
    int64_t panel;  /* bytes from a panel to the next */
    int64_t m, n, k;
    void *c;             /* rows of f32, or of bf16: act(A B + bias), rounded */
    int64_t ldc;         /* bytes */
    void *pre;           /* bf16: receives A B + bias; or NULL */
    const sr_bf16 *bias; /* or NULL */
    sr_act act;
    bool f32, add; /* f32: C = or += alpha A B */
    float alpha;
    void *room; /* strips_room(k) bytes, aligned */
} sr_strips;

/* The part of a dropout key that is constant for a sequence and head. */
typedef struct sr_key {
    uint64_t seed;
    uint32_t uid, word2, epoch; /* word2: purpose, layer and head, packed as by sr_counter() */
    uint32_t keep;              /* of 256; 256: no dropout */
} sr_key;

/* How the heads of a row turn: by a row of a table, `half` cosines, then as many sines. */
typedef struct sr_turn {
    const float *table;
    int64_t half, heads; /* heads of 2 x half columns, side by side */
    bool inverse;
} sr_turn;

/* One row of a norm.  Applies dropout to x if key is not NULL (row: its index in the sequence),
 * adds the residual if not NULL, and writes the sum to `sum`, which may be NULL only if there is
 * neither dropout nor residual.  beta may be NULL. */
typedef struct sr_norm_row {
    float *y, *sum;
    const float *x, *residual, *gamma, *beta;
    int64_t n;
    bool rms;              /* the mean is 0 */
    float eps, mean, rstd; /* mean, rstd: results */
    const sr_key *key;
    int64_t row;
    uint32_t *words; /* room for the draws: sr_drop_room(n) */
    float *room;     /* n floats, if all rows are bf16 and n is a multiple of 16; else NULL */
} sr_norm_row;

/* The backward pass of one row of a norm: dsum = , dx = dsum through the dropout of `key`, dgamma
 * and dbeta +=; each may be NULL. */
typedef struct sr_norm_back {
    float *dsum, *dx, *dgamma, *dbeta;
    const float *dy, *sum, *gamma;
    const float *more; /* a gradient of the sum from elsewhere, or NULL */
    int64_t n;
    bool rms; /* mean is 0 */
    float mean, rstd;
    const sr_key *key; /* or NULL; with row and words as above */
    int64_t row;
    uint32_t *words;
    bool bf16; /* dsum, dx, dy, more and sum are bf16, n is a multiple of 16 */
} sr_norm_back;

/* The longest sequences of the attention_short functions, which read and write bf16 themselves. */
enum { SR_ATTENTION_SHORT = 128 };

/* One sequence and head of attention: n rows of k and v, `queries` rows of q.  Rows of k, v and
 * their gradients are `ld` floats apart, of q and dq `ldq`, of out and dout `ldo`.  `room` has
 * attention_room() bytes.
 *
 * The row at position i sees those at i - before .. i + after.  Where query heads share k and v,
 * backward is called for each of these `members` in order, in one room: the last writes dk and dv.
 */
typedef struct sr_attention_unit {
    const float *q, *k, *v;
    float *out, *lse; /* written by forward, read by backward */
    const float *dout;
    float *dq, *dk, *dv;
    int64_t ld, ldq, ldo, n, queries, d;
    const int32_t *position; /* (queries) ascending, of each query; NULL: they are all rows */
    int64_t before, after;   /* at most n */
    int member, members;
    int64_t
        ahead; /* elements from the rows of this unit to those of the next one; 0: no next one */
    float scale;
    bool bf16; /* P and dS are rounded to bf16 before they are multiplied */
    sr_key key;
    void *room;
} sr_attention_unit;

/* Whether rows of the unit see only a part of the others. */
static inline bool sr_attention_is_partial(const sr_attention_unit *u) {
    return u->before < u->n - 1 || u->after < u->n - 1;
}

/* Constants of an optimizer step on a run of one segment. */
typedef struct sr_adam {
    float rate, beta1, beta2, eps,
        decay;                /* rate includes the factor of the segment (and LAMB's ratio) */
    float rest1, rest2;       /* 1 - beta */
    float correct1, correct2; /* 1 / (1 - beta^t) */
    float clip;               /* factor on the gradient */
    float least;              /* StableAdamW: eps^2 */
    float momentum, scale;    /* Muon; norm: of the direction */
    float norm;
    bool nesterov;
} sr_adam;

/* Words needed to draw the dropout of a row of n columns. */
static inline int64_t sr_drop_room(int64_t n) {
    return ((n + 63) / 64 * 4 + 15) / 16 * 16 * 4;
}

/* F(result, name, arguments) for every vector kernel. */
#define SR_SIMD_FUNCTIONS(F)                                                                       \
    /* matrix product */                                                                           \
    F(void, gemm_packed, const sr_gemm *g)                                                         \
    F(void, gemm_rows, const sr_gemm *g)                                                           \
    F(void, gemm_columns, const sr_gemm *g)                                                        \
    F(void, pack_a, float *out, const float *a, int64_t row, int64_t column, int64_t m, int64_t k) \
    F(void, pack_b, float *out, const float *b, int64_t row, int64_t column, int64_t k, int64_t n) \
    /* the same for bf16: panels hold `bf16_bytes` an element; k is padded to bf16_k by packing */ \
    F(void, gemm_bf16, const sr_gemm *g)                                                           \
    F(void, gemm_bf16_rows, const sr_gemm *g)                                                      \
    F(void, pack_a_bf16, void *out, const sr_bf16 *a, int64_t row, int64_t column, int64_t m,      \
      int64_t k)                                                                                   \
    F(void, pack_b_bf16, void *out, const sr_bf16 *b, int64_t row, int64_t column, int64_t k,      \
      int64_t n)                                                                                   \
    /* around products that are `ready`: the thread's tiles are configured, and released */        \
    F(void, bf16_begin, void)                                                                      \
    F(void, bf16_end, void)                                                                        \
    /* large products, for sets with `tiles` */                                                    \
    F(int64_t, strips_room, int64_t k)                                                             \
    F(void, strips, const sr_strips *s)                                                            \
    /* up to 32 rows of B as a step of panels: n columns, zeros behind k and n */                  \
    F(void, panels_of_rows, void *panels, int64_t panel, const sr_bf16 *b, int64_t row, int64_t k, \
      int64_t n)                                                                                   \
    /* n columns (up to 32) of B, each contiguous and `column` elements apart, as one panel */     \
    F(void, panel_of_columns, void *panel, const sr_bf16 *b, int64_t column, int64_t k, int64_t n) \
    /* up to 32 rows of A^T as the tiles of a step, those of 16 rows of A `apart` bytes apart */   \
    F(void, tiles_across, void *tiles, int64_t apart, const sr_bf16 *a, int64_t row, int64_t k,    \
      int64_t m)                                                                                   \
    F(void, widen, float *y, const sr_bf16 *x, int64_t n)                                          \
    F(void, narrow, sr_bf16 *y, const float *x, int64_t n)                                         \
    /* runs of elements */                                                                         \
    F(void, unary, float *y, const float *x, int64_t n, sr_unary op)                               \
    F(void, unary_backward, float *dx, const float *dy, const float *x, const float *y, int64_t n, \
      sr_unary op)                                                                                 \
    F(void, binary, float *y, const float *a, const float *b, int64_t n, sr_binary op)             \
    F(void, axpby, float *y, const float *x, int64_t n, float alpha, float beta)                   \
    /* sums[c] = x[0][c] + x[1][c] + ..., rows of f32 or (bf16) bf16 that are ld elements apart */ \
    F(void, column_sums, float *sums, const void *x, bool bf16, int64_t ld, int64_t rows,          \
      int64_t cols)                                                                                \
    F(double, sum, const float *x, int64_t n)                                                      \
    F(double, sum_squares, const float *x, int64_t n)                                              \
    /* y = act(x + b); pre = x + b; b and pre may be NULL */                                       \
    F(void, act, float *y, float *pre, const float *x, const float *b, int64_t n, sr_act act)      \
    /* dx = dy act'; `saved` is pre or y: sr_act_keeps_input() */                                  \
    F(void, act_backward, float *dx, const float *dy, const float *saved, int64_t n, sr_act act)   \
    /* rows of n floats, `ld` apart, as `to` says; backward as above, of bf16 */                   \
    F(void, act_bf16, const sr_rounded *to, const float *x, int64_t ld, int64_t rows, int64_t n)   \
    F(void, act_bf16_backward, sr_bf16 *dx, const sr_bf16 *dy, const sr_bf16 *saved, int64_t n,    \
      sr_act act)                                                                                  \
    /* y = act(a) g; da = dy g act'(a), dg = dy act(a) */                                          \
    F(void, gated, float *y, const float *a, const float *g, int64_t n, sr_act act)                \
    F(void, gated_backward, float *da, float *dg, const float *dy, const float *a, const float *g, \
      int64_t n, sr_act act)                                                                       \
    F(void, gated_bf16, sr_bf16 *y, const sr_bf16 *a, const sr_bf16 *g, int64_t n, sr_act act)     \
    F(void, gated_bf16_backward, sr_bf16 *da, sr_bf16 *dg, const sr_bf16 *dy, const sr_bf16 *a,    \
      const sr_bf16 *g, int64_t n, sr_act act)                                                     \
    /* rotary positions of a row's heads; y may be x */                                            \
    F(void, rotary, float *y, const float *x, const sr_turn *t)                                    \
    F(void, rotary_bf16, sr_bf16 *y, const sr_bf16 *x, const sr_turn *t)                           \
    /* rows */                                                                                     \
    F(void, softmax_row, float *y, const float *x, int64_t n, bool log)                            \
    F(void, softmax_row_backward, float *dx, const float *dy, const float *y, int64_t n, bool log) \
    /* if `grad`, x = weight (softmax(x) - onehot(label)); *best: index of the maximum */          \
    F(float, entropy_row, float *x, int64_t n, int64_t label, float weight, bool grad,             \
      int64_t *best)                                                                               \
    /* x += bias; *most: its maximum; the sum of e = exp(x - *most), */                            \
    /* which are stored, as f32 or (bf16) bf16, if not NULL */                                     \
    F(float, exponentials, void *e, bool bf16, float *x, const float *bias, int64_t n,             \
      float *most)                                                                                 \
    F(void, scale_bf16, sr_bf16 *x, int64_t n, float factor)                                       \
    F(void, drop_row, float *y, const float *x, int64_t n, const sr_key *key, int64_t row,         \
      uint32_t *words)                                                                             \
    F(void, norm_row, sr_norm_row *r)                                                              \
    F(void, norm_row_backward, const sr_norm_back *r)                                              \
    /* attention */                                                                                \
    F(int64_t, attention_room, const sr_attention_unit *longest, bool backward)                    \
    F(void, attention, const sr_attention_unit *u)                                                 \
    F(void, attention_backward, const sr_attention_unit *u)                                        \
    F(int64_t, attention_short_room, int64_t d, bool backward)                                     \
    F(void, attention_short, const sr_attention_unit *u)                                           \
    F(void, attention_short_backward, const sr_attention_unit *u)                                  \
    /* of bf16, any length, for sets with bf16_rows; between bf16_begin() and bf16_end() */        \
    F(int64_t, attention_bf16_room, const sr_attention_unit *longest, bool backward)               \
    F(void, attention_bf16, const sr_attention_unit *u)                                            \
    F(void, attention_bf16_backward, const sr_attention_unit *u)                                   \
    /* optimizer; lamb: ||w||^2 and ||u||^2 of the run; */                                         \
    /* the other moments return what the slot `moments` sums; muon: v is the direction */          \
    F(void, adamw, float *w, float *m, float *v, const float *g, int64_t n, const sr_adam *s)      \
    F(void, lamb_moments, double norms[2], const float *w, float *m, float *v, const float *g,     \
      int64_t n, const sr_adam *s)                                                                 \
    F(void, lamb_apply, float *w, const float *m, const float *v, int64_t n, const sr_adam *s)     \
    F(double, stable_moments, float *m, float *v, const float *g, int64_t n, const sr_adam *s)     \
    F(void, stable_apply, float *w, const float *m, const float *v, int64_t n, const sr_adam *s)   \
    F(double, muon_moments, float *m, float *v, const float *g, int64_t n, const sr_adam *s)       \
    F(void, muon_direction, float *v, int64_t n, float norm)                                       \
    F(void, muon_apply, float *w, const float *v, int64_t n, const sr_adam *s)                     \
    F(void, average, float *a, const float *w, int64_t n, float share)                             \
    /* multiply-adds (of bf16: bf16) in registers; returns their flops, 0 if it has none */        \
    F(double, burst, float *sink, int64_t rounds, bool bf16)

#define SR_SIMD_MEMBER(type, name, ...) type (*name)(__VA_ARGS__);
typedef struct sr_simd {
    const char *name; /* "plain", "avx2", "avx512", "avx512_bf16", "amx" */
    int tile_rows;    /* rows in a tile of C */
    /* bf16: gemm_bf16_rows takes multiples of bf16_rows rows and of bf16_k columns (0: it does not
     * exist), panels have bf16_bytes an element.  A product takes k in steps of bf16_depth at most.
     */
    int bf16_rows, bf16_k, bf16_bytes, bf16_depth;
    bool bf16_rounds; /* gemm_bf16 and gemm_bf16_rows can write bf16 */
    bool tiles;       /* gemm_bf16_rows takes a tail, and as many rows at a time as there are */
    SR_SIMD_FUNCTIONS(SR_SIMD_MEMBER)
} sr_simd;

SR_END_C
