/* panel.h - where a column of B is in its panels. */
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd/lanes.h"

/* Columns of B that are in one panel. */
typedef struct panel {
    int64_t at;      /* of the first of them in row 0 of the panels, in elements (bf16: pairs) */
    int64_t width;   /* elements in a row of the panel */
    int64_t columns; /* how many, at most those left of B */
} panel;

/* From column j of B on; panels of `rows` rows (bf16: pairs of rows) and `most` columns, the last
 * one padded to a multiple of `pad`. */
INLINE panel panel_at(const sr_gemm *g, int64_t j, int64_t rows, const int64_t most,
                      const int64_t pad) {
    int64_t all = g->part.rows > 0 ? g->part.columns : g->n, column = g->part.column + j;
    int64_t first = column / most * most, left = g->n - j, here = first + most - column;
    int64_t width = all - first < most ? (all - first + pad - 1) / pad * pad : most;
    return (panel){first * rows + column - first, width, left < here ? left : here};
}
