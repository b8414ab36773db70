/* gemm.c - the inner kernels of every matrix product.
 *
 * B is stored in panels of PANEL columns: panel p has columns p PANEL .. as [k][width], where width
 * is the remaining columns, rounded up to full vectors and padded with zeros.  A is read through
 * two strides; the fast cases are panels of TILE_M rows ([k][TILE_M], strides 1 and TILE_M), plain
 * rows and plain columns.
 *
 * Work      2 m n k flops.  A tile holds TILE_M x TILE_V vectors of C in registers (8 x 48 with
 *           AVX-512) and needs TILE_M + TILE_V loads for TILE_M TILE_V multiply-adds.
 * Numerics  every element of C is one chain of multiply-adds over k in ascending order, in any
 *           tile: a row of C depends bit for bit on that row of A and on B alone.
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/panel.h"

enum { PANEL = TILE_V * VL, LINE = 16, NEAR = 64 }; /* NEAR: k of scores, which stay in the cache */

/* One tile of `rows` rows (<= tile_rows; only those are stored) and `vectors` vectors, the last of
 * which has `last` lanes.  If `rows` is below tile_rows, the remaining rows of a must still be
 * readable.  Rows of b are `width` apart. */
INLINE void tile(const sr_gemm *g, float *c, const float *a, int64_t a_row, int64_t a_k,
                 const float *b, int64_t width, int rows, const int tile_rows, const int vectors,
                 int last) {
    vf acc[TILE_M][TILE_V];
    for (int i = 0; i < tile_rows; i++)
        for (int j = 0; j < vectors; j++) acc[i][j] = v_zero();
    for (int i = 0; i < rows && g->k > NEAR; i++) /* C may be far away */
        for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * g->ldc + j * VL, 1);
    for (int64_t k = 0; k < g->k; k++) {
        vf column[TILE_V];
        for (int j = 0; j < vectors; j++) column[j] = v_load(b + j * VL);
        for (int i = 0; i < tile_rows; i++) {
            vf x = v_set(a[i * a_row]);
            for (int j = 0; j < vectors; j++) acc[i][j] = v_fma(x, column[j], acc[i][j]);
        }
        a += a_k;
        b += width;
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

/* The loops over the tiles of a block, with tile shapes known to the compiler. */
#define TILES(a_row, a_k, row_step)                                                                \
    panel p;                                                                                       \
    for (int64_t j = 0; j < g->n; j += p.columns) {                                                \
        p = panel_at(g, j, g->part.rows > 0 ? g->part.rows : g->k, PANEL, VL);                     \
        int vectors = (int)((p.columns + VL - 1) / VL);                                            \
        int last = (int)(p.columns - (vectors - 1) * VL);                                          \
        const float *b = (const float *)g->b + p.at + g->part.row * p.width;                       \
        for (int64_t i = 0; i < g->m; i += TILE_M) {                                               \
            int rows = g->m - i < TILE_M ? (int)(g->m - i) : TILE_M;                               \
            const float *a = (const float *)g->a + i / TILE_M * (row_step);                        \
            float *c = g->c + i * g->ldc + j;                                                      \
            if (vectors == TILE_V && rows <= TILE_M / 2)                                           \
                tile(g, c, a, a_row, a_k, b, p.width, rows, TILE_M / 2, TILE_V, last);             \
            else if (vectors == 3 && TILE_V >= 3)                                                  \
                tile(g, c, a, a_row, a_k, b, p.width, rows, TILE_M, TILE_V >= 3 ? 3 : TILE_V,      \
                     last);                                                                        \
            else if (vectors == 2)                                                                 \
                tile(g, c, a, a_row, a_k, b, p.width, rows, TILE_M, 2, last);                      \
            else                                                                                   \
                tile(g, c, a, a_row, a_k, b, p.width, rows, TILE_M, 1, last);                      \
        }                                                                                          \
    }

void SR_SIMD(gemm_packed)(const sr_gemm *g) {
    TILES(1, TILE_M, TILE_M * g->k)
}
void SR_SIMD(gemm_rows)(const sr_gemm *g) {
    TILES(g->lda, 1, TILE_M * g->lda)
}
void SR_SIMD(gemm_columns)(const sr_gemm *g){TILES(1, g->lda, TILE_M)}

/* ---- packing --------------------------------------------------------------------------------- */

/* to[x][r] = from[r][x] for 4 x 4 elements: to's rows are `width` floats apart, from's `ld`. */
INLINE void turn_4x4(float *to, int64_t width, const float *from, int64_t ld) {
    quad r[4], low0, low1, high0, high1;
    for (int i = 0; i < 4; i++) memcpy(&r[i], from + i * ld, sizeof r[i]);
    low0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    low1 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    high0 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    high1 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    quad column[4] = {__builtin_shufflevector(low0, low1, 0, 1, 4, 5),
                      __builtin_shufflevector(low0, low1, 2, 3, 6, 7),
                      __builtin_shufflevector(high0, high1, 0, 1, 4, 5),
                      __builtin_shufflevector(high0, high1, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++) memcpy(to + i * width, &column[i], sizeof column[i]);
}

/* to[x * width + r] = from[r * ld + x * step], r below rows, x below k; zeros for r up to width. */
static void turn(float *to, int64_t width, const float *from, int64_t ld, int64_t step,
                 int64_t rows, int64_t k) {
    int64_t r = 0, whole = step == 1 ? k / 4 * 4 : 0;
    for (; r + 4 <= rows; r += 4) {
        for (int64_t x = 0; x < whole; x += 4)
            turn_4x4(to + x * width + r, width, from + r * ld + x, ld);
        for (int64_t x = whole; x < k; x++)
            for (int64_t i = r; i < r + 4; i++) to[x * width + i] = from[i * ld + x * step];
    }
    for (; r < width; r++)
        for (int64_t x = 0; x < k; x++)
            to[x * width + r] = r < rows ? from[r * ld + x * step] : 0.0f;
}

/* to[j] = from[j], j below n; zeros for j up to width. */
INLINE void copy_row(float *to, const float *from, int64_t n, int64_t width) {
    for (int64_t j = 0; j < width; j += VL)
        v_store(to + j, n - j >= VL ? v_load(from + j) : v_load_n(from + j, (int)(n - j)));
}

/* Panels of rows that are contiguous in n: whole rows one after the other, as pieces of rows that
 * lie a power of two apart share few places of a cache. */
static void lay_side_by_side(float *out, const float *from, int64_t ld, int64_t k, int64_t n) {
    int64_t whole = n / PANEL * PANEL, left = n - whole, width = (left + VL - 1) / VL * VL;
    for (int64_t x = 0; x < k; x++, from += ld) {
#pragma GCC unroll 4
        for (int64_t j = 0; j < whole; j += PANEL)
            copy_row(out + j * k + x * PANEL, from + j, PANEL, PANEL);
        copy_row(out + whole * k + x * width, from + whole, left, width);
    }
}

/* Panels of LINE rows that follow one another in memory: a line of each column is read once. */
static void share_out(float *out, const float *a, int64_t column, int64_t k) {
    for (int64_t x = 0; x < k; x++, a += column)
        for (int i = 0; i < LINE; i += TILE_M)
            memcpy(out + i * k + x * TILE_M, a + i, TILE_M * sizeof *out);
}

/* out: panels of TILE_M rows of a block of A (m, k) with element strides (row, column). */
void SR_SIMD(pack_a)(float *out, const float *a, int64_t row, int64_t column, int64_t m,
                     int64_t k) {
    int64_t i = 0;
    for (; row == 1 && i + LINE <= m; i += LINE) share_out(out + i * k, a + i, column, k);
    for (; i < m; i += TILE_M)
        turn(out + i * k, TILE_M, a + i * row, row, column, m - i < TILE_M ? m - i : TILE_M, k);
}

/* out: panels of a block of B (k, n) with element strides (row, column). */
void SR_SIMD(pack_b)(float *out, const float *b, int64_t row, int64_t column, int64_t k,
                     int64_t n) {
    if (column == 1) {
        lay_side_by_side(out, b, row, k, n);
        return;
    }
    for (int64_t j = 0; j < n; j += PANEL) {
        int64_t left = n - j < PANEL ? n - j : PANEL;
        int64_t width = (left + VL - 1) / VL * VL;
        turn(out, width, b + j * column, column, row, left, k);
        out += width * k;
    }
}
