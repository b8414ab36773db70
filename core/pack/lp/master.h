/* master.h - the linear program of packing over the known patterns.
 *
 * Internal to core/pack.  Minimises the packs that cover every length.  Rows are the different
 * lengths, descending.  Columns are
 *
 *     0 .. rows - 1          as many copies of one length as fit into a pack
 *     rows .. 2 rows - 1     exchanges: a slot of length i is used for the next shorter length; the
 *                            last one drops a slot.  They cost nothing and keep the duals monotone
 *                            in the length, which speeds up column generation
 *     2 rows ..              patterns
 *
 * The dual program: values y >= 0 of the lengths, monotone in the length, such that no pattern is
 * worth more than 1, with the largest total.
 *
 * Primal simplex, devex pricing, sparse basis (basis.h).  A tiny perturbation of the demand
 * prevents stalling; sr_master_finish() removes it.
 */
#pragma once

#include "core/pack/lp/basis.h"

SR_BEGIN_C

typedef struct sr_master {
    int32_t rows, capacity, max_seqs;
    const int32_t *length; /* descending; borrowed */
    const double *demand;  /* by row; borrowed */
    double *perturbed;
    sr_vectors columns;
    size_t column_room;
    double *reduced, *weight; /* by column: reduced cost; devex weight */
    int32_t *position;        /* by column: position in the basis, or -1 */
    int32_t *basic;           /* by position: column */
    double *x;                /* by position */
    double *y;                /* by row */
    double *direction, *ray, *scratch;
    sr_basis basis;
    int64_t pivots;
} sr_master;

sr_status sr_master_new(sr_master *m, const int32_t *length, const double *demand, int32_t rows,
                        int32_t capacity, int32_t max_seqs);
void sr_master_free(sr_master *m);

/* Adds a pattern of n rows, in any order. */
sr_status sr_master_add(sr_master *m, const int32_t *items, int32_t n);

/* Pivots until no known column improves, at most `most` times. */
sr_status sr_master_optimise(sr_master *m, int64_t most);

/* x and y from a fresh factorisation and the true demand; x is not negative. */
sr_status sr_master_finish(sr_master *m);

/* Drops non-basic patterns that are far from improving, if there are more than `keep`. */
sr_status sr_master_trim(sr_master *m, size_t keep);

double sr_master_packs(const sr_master *m); /* the objective */

static inline bool sr_master_is_exchange(const sr_master *m, int32_t column) {
    return column >= m->rows && column < 2 * m->rows;
}

SR_END_C
