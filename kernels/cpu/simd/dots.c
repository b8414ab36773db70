/* dots.c - the product of bf16 by dot products of pairs.
 *
 * Work      2 m n k flops: 4 VL per instruction, twice those of a multiply-add where the processor
 *           has one unit of each (Zen 4, Zen 5), as many where it has half a unit of dot products.
 * Numerics  an element of C is one chain of pairs over k in ascending order, in any tile; the
 *           instruction flushes denormals to zero and rounds each product and sum of a pair.
 * Measured  AMD Zen 4, 2 threads, 2026-11-27: 447 GFLOP/s of 468, 3,072 columns of A, packing
 *           included (`build/seqrun recipes/bench/ops.lua op=linear precision=bf16`).
 */
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/bf16.h"
#include "kernels/cpu/simd/panel.h"

#ifdef BF16_DOTS

/* acc + a[2i] b[2i] + a[2i + 1] b[2i + 1] for lane i */
INLINE vf v_dot(vf acc, vu a, vu b) {
#if SR_EMULATE
    acc = v_fma((vf)(a & u_set(0xFFFF0000)), (vf)(b & u_set(0xFFFF0000)), acc);
    return v_fma((vf)(a << 16), (vf)(b << 16), acc);
#else
    return (vf)_mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
#endif
}

/* A as it is read: pair p of row i is at a + i row + p pair. */
typedef struct stride {
    int64_t row, pair;
} stride;

void SR_SIMD(act_bf16)(const sr_rounded *to, const float *x, int64_t ld, int64_t rows, int64_t n);

INLINE sr_rounded rounded_from(const sr_rounded *all, int64_t row, int64_t column) {
    sr_rounded to = *all;
    if (to.y != NULL) to.y += row * to.ld + column;
    if (to.pre != NULL) to.pre += row * to.ld + column;
    if (to.bias != NULL) to.bias += column;
    return to;
}

/* Asks for rows that will be written, which may be far away. */
INLINE void expect_rounded(const sr_rounded *to, int rows, int64_t columns) {
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(to->y + i * to->ld, 1);
        __builtin_prefetch(to->y + i * to->ld + columns - 1, 1);
        if (to->pre == NULL) continue;
        __builtin_prefetch(to->pre + i * to->ld, 1);
        __builtin_prefetch(to->pre + i * to->ld + columns - 1, 1);
    }
}

/* One tile of C from (row, column) on: tile_rows rows, of which `rows` are stored, and `vectors`
 * vectors, the last of which has `last` lanes.  Rows of b are `width` apart. */
INLINE void tile(const sr_gemm *g, int64_t row, int64_t column, const sr_bf16 *a, stride s,
                 const uint32_t *b, int64_t width, int rows, const int tile_rows, const int vectors,
                 int last) {
    float *c = g->c + row * g->ldc + column;
    int64_t columns = (vectors - 1) * VL + last;
    sr_rounded to = rounded_from(&g->rounded, row, column);
    vf acc[TILE_M][TILE_V];
    for (int i = 0; i < tile_rows; i++)
        for (int j = 0; j < vectors; j++) acc[i][j] = v_zero();
    if (to.y != NULL)
        expect_rounded(&to, rows, columns);
    else if (g->add) /* C may be far away */
        for (int i = 0; i < tile_rows; i++)
            for (int j = 0; j < vectors; j++) __builtin_prefetch(c + i * g->ldc + j * VL, 1);
    for (int64_t p = 0; p < bf16_padded(g->k) / 2; p++, a += s.pair, b += width) {
        vu pairs[TILE_V];
        for (int j = 0; j < vectors; j++) pairs[j] = u_load(b + j * VL);
        for (int i = 0; i < tile_rows; i++) {
            uint32_t pair;
            memcpy(&pair, a + i * s.row, sizeof pair);
            vu x = u_set(pair);
            for (int j = 0; j < vectors; j++) acc[i][j] = v_dot(acc[i][j], x, pairs[j]);
        }
    }
    vf alpha = v_set(g->alpha);
    UNSET float sums[TILE_M * TILE_V * VL]; /* if they are rounded */
    for (int i = 0; i < tile_rows; i++) {
        if (i >= rows) break;
        float *from = c + i * g->ldc, *at = to.y != NULL ? sums + i * TILE_V * VL : from;
        for (int j = 0; j < vectors; j++, from += VL, at += VL) {
            int64_t lanes = j == vectors - 1 ? last : VL;
            vf y = acc[i][j] * alpha;
            v_put(at, 0, lanes, g->add ? v_at(from, 0, lanes) + y : y);
        }
    }
    if (to.y != NULL) SR_SIMD(act_bf16)(&to, sums, TILE_V * VL, rows, columns);
}

INLINE void tiles(const sr_gemm *g, stride s, int64_t panel_step) {
    int64_t pairs = bf16_padded(g->part.rows > 0 ? g->part.rows : g->k) / 2;
    panel p;
    for (int64_t j = 0; j < g->n; j += p.columns) {
        p = panel_at(g, j, pairs, BF16_PANEL, VL);
        int vectors = (int)((p.columns + VL - 1) / VL);
        int last = (int)(p.columns - (vectors - 1) * VL);
        const uint32_t *b = (const uint32_t *)g->b + p.at + g->part.row / 2 * p.width;
        for (int64_t i = 0; i < g->m; i += TILE_M) {
            int rows = g->m - i < TILE_M ? (int)(g->m - i) : TILE_M;
            const sr_bf16 *a = (const sr_bf16 *)g->a + i / TILE_M * panel_step;
            if (vectors == TILE_V && rows <= TILE_M / 2)
                tile(g, i, j, a, s, b, p.width, rows, TILE_M / 2, TILE_V, last);
            else if (vectors == TILE_V)
                tile(g, i, j, a, s, b, p.width, rows, TILE_M, TILE_V, last);
            else if (vectors == 2)
                tile(g, i, j, a, s, b, p.width, rows, TILE_M, 2, last);
            else
                tile(g, i, j, a, s, b, p.width, rows, TILE_M, 1, last);
        }
    }
}

void SR_SIMD(gemm_bf16)(const sr_gemm *g) {
    tiles(g, (stride){2, 2 * TILE_M}, TILE_M * bf16_padded(g->k));
}
void SR_SIMD(gemm_bf16_rows)(const sr_gemm *g) {
    tiles(g, (stride){g->lda, 2}, TILE_M * g->lda);
}

#endif
