/* nnls.h - non-negative least squares over many sparse columns.
 *
 * Internal to core/pack: used by the solver nnlshp.
 * Source: Lawson and Hanson 1974, chapter 23; the triangle of the normal equations is updated as
 * columns change, so memory is columns * entries and rows^2, never rows * columns.
 */
#pragma once

#include "core/base/status.h"

#include <stdint.h>

SR_BEGIN_C

/* Column j has entries of 1 at row[j * width .. + width), terminated early by row 0 (rows count
 * from 1); equal rows add up. */
typedef struct sr_nnls {
    const uint16_t *row;
    int32_t width;
    int64_t columns;
    int32_t rows;
    const double *weight; /* by row, 1..rows: weight of the row in the squared error */
    const double *target; /* by row */
    uint32_t tie;         /* 0: ties go to the first column; else decided at random by this seed */
    double deadline;      /* sr_time_monotonic() at which to return the best x so far; 0: none */
} sr_nnls;

/* x[columns] >= 0 that minimises sum over rows of weight * (A x - target)^2.  At most `iterations`
 * columns are tried (0: 3 * rows, the usual limit).  SR_ESTOP if a stop was requested. */
sr_status sr_nnls_solve(double *x, const sr_nnls *problem, int64_t iterations);

SR_END_C
