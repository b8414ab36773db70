/* low.c - conversion between bf16 and f32, and the packing of bf16 operands.
 *
 * Panels of B are [k][width] as in gemm.c: of floats, or of pairs of neighbours in k.  Panels of A
 * are [k][TILE_M]; for tiles, rows of low_padded(k) elements.
 *
 * Cost      4 x 4 words at a time: 16 to 20 instructions for 16 floats or 32 elements in pairs.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/low.h"

void SR_SIMD(widen)(float *y, const sr_bf16 *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) v_put(y, i, n, v_from_low(h_at(x, i, n)));
}

void SR_SIMD(narrow)(sr_bf16 *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) {
        vh h = v_to_low(v_at(x, i, n));
        memcpy(y + i, &h, n - i >= VL ? sizeof h : (size_t)(n - i) * sizeof *y);
    }
}

/* ---- packing --------------------------------------------------------------------------------- */

enum { UNIT = LOW_BYTES == 4 ? 1 : 2 }; /* elements of k in a word */

typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint16_t eight __attribute__((vector_size(16)));
typedef int64_t pair64 __attribute__((vector_size(16)));

/* Words of a block: (r, x) has element k = UNIT x of row r, and its neighbour if UNIT is 2. */
typedef struct source {
    const sr_bf16 *at;
    int64_t row, column; /* element strides; one of them is usually 1 */
    int64_t rows, k;
} source;

typedef struct target {
    uint32_t *at;
    int64_t row, column; /* word strides; one of them is 1 */
    int64_t rows, words; /* beyond the source: zeros */
} target;

INLINE uint32_t word(const source *s, int64_t r, int64_t x) {
    if (r >= s->rows || UNIT * x >= s->k) return 0;
    const sr_bf16 *p = s->at + r * s->row + UNIT * x * s->column;
    if (UNIT == 1) return (uint32_t)p[0] << 16;
    return p[0] | (UNIT * x + 1 < s->k ? (uint32_t)p[s->column] << 16 : 0);
}

INLINE eight half_quad(const sr_bf16 *p) { /* through a register: a copy would stall the load */
    int64_t four;
    memcpy(&four, p, sizeof four);
    return (eight)(pair64){four, 0};
}

/* Four words from p on, of elements that follow one another. */
INLINE quad words_along_k(const sr_bf16 *p) {
    eight h = half_quad(p), zero = {0};
    if (UNIT == 1) return (quad)__builtin_shufflevector(zero, h, 0, 8, 1, 9, 2, 10, 3, 11);
    quad q;
    memcpy(&q, p, sizeof q);
    return q;
}

/* Words of four rows, which follow one another: pairs are p[i] and p[i + step]. */
INLINE quad words_along_rows(const sr_bf16 *p, int64_t step) {
    if (UNIT == 1) return words_along_k(p);
    return (quad)__builtin_shufflevector(half_quad(p), half_quad(p + step), 0, 8, 1, 9, 2, 10, 3,
                                         11);
}

INLINE void transpose(quad q[4]) {
    quad low0 = __builtin_shufflevector(q[0], q[1], 0, 4, 1, 5);
    quad low1 = __builtin_shufflevector(q[2], q[3], 0, 4, 1, 5);
    quad high0 = __builtin_shufflevector(q[0], q[1], 2, 6, 3, 7);
    quad high1 = __builtin_shufflevector(q[2], q[3], 2, 6, 3, 7);
    q[0] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
    q[1] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
    q[2] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
    q[3] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
}

/* The 4 x 4 words at (r, x), all of which the source has. */
INLINE void copy_block(const target *t, const source *s, int64_t r, int64_t x,
                       const bool from_along_k, const bool to_along_k) {
    quad q[4];
    for (int i = 0; i < 4; i++)
        q[i] = from_along_k ? words_along_k(s->at + (r + i) * s->row + UNIT * x)
                            : words_along_rows(s->at + UNIT * (x + i) * s->column + r, s->column);
    if (from_along_k != to_along_k) transpose(q);
    for (int i = 0; i < 4; i++)
        memcpy(to_along_k ? t->at + (r + i) * t->row + x : t->at + (x + i) * t->column + r, &q[i],
               sizeof q[i]);
}

INLINE void pack_words(const target *t, const source *s, const bool from_along_k,
                       const bool to_along_k) {
    for (int64_t x = 0; x < t->words; x += 4)
        for (int64_t r = 0; r < t->rows; r += 4) {
            if (r + 4 <= s->rows && UNIT * (x + 4) <= s->k) {
                copy_block(t, s, r, x, from_along_k, to_along_k);
                continue;
            }
            for (int64_t j = x; j < x + 4 && j < t->words; j++)
                for (int64_t i = r; i < r + 4 && i < t->rows; i++)
                    t->at[i * t->row + j * t->column] = word(s, i, j);
        }
}

static void pack_slowly(const target *t, const source *s) {
    for (int64_t x = 0; x < t->words; x++)
        for (int64_t r = 0; r < t->rows; r++) t->at[r * t->row + x * t->column] = word(s, r, x);
}

INLINE void pack(const target *t, const source *s, const bool to_along_k) {
    if (s->column == 1)
        pack_words(t, s, true, to_along_k);
    else if (s->row == 1)
        pack_words(t, s, false, to_along_k);
    else
        pack_slowly(t, s);
}

static void pack_panels(uint32_t *out, const sr_bf16 *from, int64_t row, int64_t column,
                        int64_t rows, int64_t k, int64_t panel, int64_t lanes) {
    int64_t words = low_padded(k) / UNIT;
    for (int64_t r = 0; r < rows; r += panel) {
        int64_t left = rows - r < panel ? rows - r : panel;
        int64_t width = (left + lanes - 1) / lanes * lanes;
        source s = {from + r * row, row, column, left, k};
        target t = {out, 1, width, width, words};
        pack(&t, &s, false);
        out += width * words;
    }
}

void SR_SIMD(pack_a_low)(void *out, const sr_bf16 *a, int64_t row, int64_t column, int64_t m,
                         int64_t k) {
#ifdef LOW_TILES
    int64_t words = low_padded(k) / UNIT;
    source s = {a, row, column, m, k};
    target t = {out, words, 1, (m + LOW_ROWS - 1) / LOW_ROWS * LOW_ROWS, words};
    pack(&t, &s, true);
#else
    pack_panels(out, a, row, column, m, k, TILE_M, TILE_M);
#endif
}

void SR_SIMD(pack_b_low)(void *out, const sr_bf16 *b, int64_t row, int64_t column, int64_t k,
                         int64_t n) {
    pack_panels(out, b, column, row, n, k, LOW_PANEL, LOW_PAD);
}

/* ---- the product of converted panels --------------------------------------------------------- */

#if !defined(LOW_DOTS) && !defined(LOW_TILES)
void SR_SIMD(gemm_packed)(const sr_gemm *g);

void SR_SIMD(gemm_low)(const sr_gemm *g) {
    SR_SIMD(gemm_packed)(g);
}
void SR_SIMD(gemm_low_rows)(const sr_gemm *g) {
    (void)g; /* LOW_ROWS is 0: rows are never read in place */
}
#endif
