/* gemm.c - the inner kernels of every matrix product.
 *
 * B stands in panels of PANEL columns: panel p holds columns p PANEL .. as [k][width], width the
 * columns left, rounded up to whole vectors and filled with zeros.  A is read through two strides;
 * the fast cases are panels of TILE_M rows ([k][TILE_M], strides 1 and TILE_M), plain rows and
 * plain columns.
 *
 * Work      2 m n k flops.  A tile holds TILE_M x TILE_V vectors of C in registers (8 x 48 with
 *           AVX-512) and needs TILE_M + TILE_V loads for TILE_M TILE_V multiply-adds.
 * Numerics  every element of C is one chain of multiply-adds over k in rising order, whatever tile
 *           it falls in: a row of C depends on that row of A and on B alone, to the bit.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

enum { PANEL = TILE_V * VL };

/* One tile: rows rows (<= TILE_M, only those are stored) of vectors vectors, the last of which has
 * `last` lanes.  `rows` may be below TILE_M only when a reads zeros there or the caller allows the
 * rows to be read. */
INLINE void tile(const sr_gemm *g, float *c, const float *a, int64_t a_row, int64_t a_k,
                 const float *b, int rows, const int tile_rows, const int vectors, int last) {
    vf acc[TILE_M][TILE_V];
    for (int i = 0; i < tile_rows; i++)
        for (int j = 0; j < vectors; j++) acc[i][j] = v_zero();
    for (int64_t k = 0; k < g->k; k++) {
        vf column[TILE_V];
        for (int j = 0; j < vectors; j++) column[j] = v_load(b + j * VL);
        for (int i = 0; i < tile_rows; i++) {
            vf x = v_set(a[i * a_row]);
            for (int j = 0; j < vectors; j++) acc[i][j] = v_fma(x, column[j], acc[i][j]);
        }
        a += a_k;
        b += vectors * VL;
    }
    vf alpha = v_set(g->alpha);
    for (int i = 0; i < tile_rows; i++) {
        if (i >= rows) break;
        float *to = c + i * g->ldc;
        for (int j = 0; j < vectors; j++, to += VL) {
            int lanes = j == vectors - 1 ? last : VL;
            vf y = acc[i][j] * alpha;
            if (lanes == VL) {
                v_store(to, g->add ? v_load(to) + y : y);
            } else {
                v_store_n(to, g->add ? v_load_n(to, lanes) + y : y, lanes);
            }
        }
    }
}

/* Both loops over the tiles of a block, with the tile's shape known to the compiler. */
#define TILES(a_row, a_k, row_step)                                                                \
    for (int64_t j = 0; j < g->n; j += PANEL) {                                                    \
        int64_t left = g->n - j;                                                                   \
        int vectors = left >= PANEL ? TILE_V : (int)((left + VL - 1) / VL);                        \
        int last = left >= PANEL ? VL : (int)(left - (vectors - 1) * VL);                          \
        const float *b = g->b + j * g->k;                                                          \
        for (int64_t i = 0; i < g->m; i += TILE_M) {                                               \
            int rows = g->m - i < TILE_M ? (int)(g->m - i) : TILE_M;                               \
            const float *a = g->a + i / TILE_M * (row_step);                                       \
            float *c = g->c + i * g->ldc + j;                                                      \
            if (vectors == 3 && TILE_V >= 3)                                                       \
                tile(g, c, a, a_row, a_k, b, rows, TILE_M, TILE_V >= 3 ? 3 : TILE_V, last);        \
            else if (vectors == 2)                                                                 \
                tile(g, c, a, a_row, a_k, b, rows, TILE_M, 2, last);                               \
            else                                                                                   \
                tile(g, c, a, a_row, a_k, b, rows, TILE_M, 1, last);                               \
        }                                                                                          \
    }

void SR_SIMD(gemm_packed)(const sr_gemm *g) {
    TILES(1, TILE_M, TILE_M * g->k)
}
void SR_SIMD(gemm_rows)(const sr_gemm *g) {
    TILES(g->lda, 1, TILE_M * g->lda)
}
void SR_SIMD(gemm_columns)(const sr_gemm *g) {
    TILES(1, g->lda, TILE_M)
}

/* out: panels of TILE_M rows of a block of A (m, k) with element strides (row, column). */
void SR_SIMD(pack_a)(float *out, const float *a, int64_t row, int64_t column, int64_t m,
                     int64_t k) {
    for (int64_t i = 0; i < m; i += TILE_M, out += TILE_M * k) {
        int64_t rows = m - i < TILE_M ? m - i : TILE_M;
        const float *from = a + i * row;
        if (rows < TILE_M) memset(out, 0, (size_t)(TILE_M * k) * sizeof *out);
        if (row == 1 && rows == TILE_M) {
            for (int64_t x = 0; x < k; x++)
                memcpy(out + x * TILE_M, from + x * column, TILE_M * sizeof *out);
        } else {
            for (int64_t r = 0; r < rows; r++)
                for (int64_t x = 0; x < k; x++) out[x * TILE_M + r] = from[r * row + x * column];
        }
    }
}

/* Columns side by side: copies. */
static void pack_b_rows(float *out, const float *b, int64_t row, int64_t k, int64_t n,
                        int64_t width) {
    for (int64_t x = 0; x < k; x++, out += width, b += row) {
        memcpy(out, b, (size_t)n * sizeof *out);
        for (int64_t j = n; j < width; j++) out[j] = 0.0f;
    }
}

/* out: panels of a block of B (k, n) with element strides (row, column). */
void SR_SIMD(pack_b)(float *out, const float *b, int64_t row, int64_t column, int64_t k,
                     int64_t n) {
    for (int64_t j = 0; j < n; j += PANEL) {
        int64_t left = n - j < PANEL ? n - j : PANEL;
        int64_t width = (left + VL - 1) / VL * VL;
        const float *from = b + j * column;
        if (column == 1) {
            pack_b_rows(out, from, row, k, left, width);
        } else {
            /* VL source rows are read side by side so that each line of `out` is written once */
            for (int64_t c0 = 0; c0 < width; c0 += VL) {
                int64_t some = left - c0 < VL ? left - c0 : VL;
                for (int64_t x = 0; x < k; x++) {
                    float *to = out + x * width + c0;
                    for (int64_t c = 0; c < some; c++) to[c] = from[(c0 + c) * column + x * row];
                    for (int64_t c = some; c < VL; c++) to[c] = 0.0f;
                }
            }
        }
        out += width * k;
    }
}
