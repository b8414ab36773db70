/* basis.h - a sparse square matrix whose columns are replaced one by one: the simplex basis.
 *
 * Internal to core/pack.  The matrix B is stored as L U times a product of etas, one for each
 * column replaced since the last factorisation.  Patterns have few different lengths, so L and U
 * are nearly as sparse as B, and a solve takes a few thousand operations; a dense inverse of 500
 * rows takes 258,000.
 *
 * Rows are lengths; columns have positions 0..rows-1.
 * Source: left-looking LU (Gilbert and Peierls 1988) after peeling singletons, threshold pivoting;
 * product form of the inverse.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

/* Concatenated sparse vectors: vector k is entry[start[k] .. start[k + 1]). */
typedef struct sr_entry {
    int32_t at;
    double value;
} sr_entry;

typedef struct sr_vectors {
    sr_entry *entry;
    size_t *start;                              /* start[0] = 0; `count` + 1 of them */
    size_t count, used, count_room, entry_room; /* used: entries, including pushed ones */
} sr_vectors;

sr_status sr_vectors_new(sr_vectors *v, size_t count_room, size_t entry_room);
void sr_vectors_free(sr_vectors *v);
/* Reserves one more vector of up to n entries. */
sr_status sr_vectors_reserve(sr_vectors *v, size_t n);
static inline void sr_vectors_push(sr_vectors *v, int32_t at, double value) {
    sr_entry *e = &v->entry[v->used++];
    e->at = at, e->value = value;
}
static inline void sr_vectors_close(sr_vectors *v) { /* ends the vector that was pushed */
    v->start[++v->count] = v->used;
}

typedef struct sr_basis {
    int32_t rows;
    sr_vectors lower, upper, eta;
    int32_t *row_of, *position_of; /* step -> pivot row, position */
    int32_t *step_of;              /* row -> step, -1 if not yet eliminated */
    double *diagonal;              /* by step */
    int32_t *eta_at;               /* position that each eta replaced */
    double *eta_pivot;
    double *work;   /* by row or step */
    int32_t *order; /* scratch: columns in elimination order, their rows, counts */
    int32_t *hint, *row_count, *column_count, *queue, *touched, *active;
} sr_basis;

enum { SR_BASIS_ETAS = 40 };

sr_status sr_basis_new(sr_basis *b, int32_t rows);
void sr_basis_free(sr_basis *b);

/* Factors the matrix whose column at position p is column[p] of `columns`, and drops the etas.
 * SR_ENUMERIC if it is singular to working precision. */
sr_status sr_basis_factor(sr_basis *b, const sr_vectors *columns, const int32_t *column);

/* x = B^-1 v: v by row (destroyed), x by position. */
void sr_basis_solve(const sr_basis *b, double *x, double *v);

/* y = c B^-1: c by position (destroyed), y by row. */
void sr_basis_solve_transposed(const sr_basis *b, double *y, double *c);

/* Replaces the column at `position` by a column a, given d = B^-1 a (by position). */
sr_status sr_basis_replace(sr_basis *b, int32_t position, const double *d);

static inline bool sr_basis_is_long(const sr_basis *b) {
    return b->eta.count >= SR_BASIS_ETAS;
}

SR_END_C
