/* report.h - counts what costs time on a GPU: sectors of device memory, bank conflicts.
 *
 * Lanes of a warp run one after the other here, so each notes its accesses; when the warp meets,
 * the n-th accesses of a line by its lanes are taken as one request.  A request to device memory
 * costs the 32-byte sectors that it touches; at best they are full.  A request to shared memory is
 * served in phases (32 lanes of 4 bytes, 16 of 8, 8 of 16, 8 rows of a matrix), and each phase
 * costs as many wavefronts as its busiest bank has words; at best one.
 *
 * SEQRUN_SIMT_REPORT=1 prints one table to stderr when the device is closed,
 * SEQRUN_SIMT_REPORT=FILE writes it with tabs: op, place, access, launches, requests, units, best
 * (units), bytes.
 */
#pragma once

#include <stdio.h>

#include "kernels/simt/machine.h"

namespace simt {

enum access : int {
    COUNT_READ,
    COUNT_WRITE,
    COUNT_SHARED_READ,
    COUNT_SHARED_WRITE,
    COUNT_MATRIX,
    COUNT_KINDS
};

/* An access by a lane of the running thread's warp; by the running thread. */
void count_lane(machine *m, int lane, access kind, uintptr_t at, size_t bytes, place where);
void count_access(machine *m, access kind, uintptr_t at, size_t bytes, place where);
/* The warp has met, or the block has: the accesses since are requests. */
void count_warp(machine *m, int warp);
void count_block(machine *m);
void counts_free(report *counts); /* may be NULL */

/* Adds what the machine has counted to the process's table, under the name of the op. */
void report_launch(machine *m, const char *op);
/* Prints the table and empties it. */
void report_print(FILE *out, bool tabs);

} // namespace simt
