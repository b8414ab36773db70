/* bf16.c - conversion between bf16 and f32, and the packing of bf16 operands.
 *
 * Panels of B are [k][width] as in gemm.c: of floats, or of pairs of neighbours in k.  Panels of A
 * are [k][TILE_M]; for tiles, rows of bf16_padded(k) elements.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"
#if defined(BF16_TILES) || defined(BF16_DOTS)
#include "kernels/cpu/simd/pairs.h"
#else
#include "kernels/cpu/simd/floats.h"
#endif

void SR_SIMD(widen)(float *y, const sr_bf16 *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) v_put(y, i, n, v_from_bf16(h_at(x, i, n)));
}

void SR_SIMD(narrow)(sr_bf16 *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) h_put(y, i, n, v_to_bf16(v_at(x, i, n)));
}

/* ---- packing --------------------------------------------------------------------------------- */

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
    int64_t words = bf16_padded(k) / UNIT;
#if defined(BF16_DOTS) || defined(BF16_TILES)
    source all = {from, row, column, rows, k};
    if (row == 1 && words == (k + 1) / 2) {
        join_panels(out, &all, panel, lanes);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r += panel) {
        int64_t left = rows - r < panel ? rows - r : panel;
        int64_t width = (left + lanes - 1) / lanes * lanes;
        source s = {from + r * row, row, column, left, k};
        target t = {out, 1, width, width, words};
        pack(&t, &s, false);
        out += width * words;
    }
}

void SR_SIMD(pack_a_bf16)(void *out, const sr_bf16 *a, int64_t row, int64_t column, int64_t m,
                          int64_t k) {
#ifdef BF16_TILES
    int64_t words = bf16_padded(k) / UNIT;
    source s = {a, row, column, m, k};
    target t = {out, words, 1, (m + BF16_ROWS - 1) / BF16_ROWS * BF16_ROWS, words};
    pack(&t, &s, true);
#elif defined(BF16_DOTS)
    source s = {a, row, column, m, k};
    target t = {out, 1, TILE_M, (m + TILE_M - 1) / TILE_M * TILE_M, bf16_padded(k) / UNIT};
    if (column == 1)
        split_words(&t, &s);
    else if (row == 1)
        join_split(&t, &s);
    else
        pack_panels(out, a, row, column, m, k, TILE_M, TILE_M);
#else
    pack_panels(out, a, row, column, m, k, TILE_M, TILE_M);
#endif
}

void SR_SIMD(pack_b_bf16)(void *out, const sr_bf16 *b, int64_t row, int64_t column, int64_t k,
                          int64_t n) {
    pack_panels(out, b, column, row, n, k, BF16_PANEL, BF16_PAD);
}

#ifndef BF16_TILES
void SR_SIMD(bf16_begin)(void) {
}
void SR_SIMD(bf16_end)(void) {
}
#endif

/* ---- the product of converted panels --------------------------------------------------------- */

#if !defined(BF16_DOTS) && !defined(BF16_TILES)
void SR_SIMD(gemm_packed)(const sr_gemm *g);

void SR_SIMD(gemm_bf16)(const sr_gemm *g) {
    SR_SIMD(gemm_packed)(g);
}
void SR_SIMD(gemm_bf16_rows)(const sr_gemm *g) {
    (void)g; /* BF16_ROWS is 0: rows are never read in place */
}
#endif
