/* fill.h - distributes the sequences of a window of updates over batches, leaving few rows empty.
 *
 * Truncated sequences have nearly equal lengths, of which a pack of max_len tokens often holds no
 * whole number; a batch of several packs does, so here the unit is the batch.  Every update gets
 * the same number of sequences and of batches (give or take a sequence, if they do not divide), and
 * batches differ by at most one tile of SR_ROWS_UNIT rows.
 *
 * Longest first, most sequences go to the batch with most room, so that every batch has
 * sequences of all lengths; the shortest fill the gaps.  The number of tiles starts at its lower
 * bound, ceil(tokens / SR_ROWS_UNIT), and grows until everything fits: usually by one or two.
 */
#ifndef SR_BATCH_FILL_H
#define SR_BATCH_FILL_H

#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_fill_opts {
    int64_t updates; /* of the window, at most one per sequence */
    int64_t rows;    /* maximum rows of a batch, at least the longest sequence; 0: no limit */
    int64_t shares;  /* batches of an update are a multiple of it, if sequences allow; 0: any */
} sr_fill_opts;

typedef struct sr_fill {
    int32_t *batch; /* (sequences) batch b belongs to update b % updates */
    int64_t *rows;  /* (batches) multiples of SR_ROWS_UNIT */
    int64_t batches, tiles, bound;
} sr_fill;

/* Errors: SR_EINVAL  no sequences, or fewer than updates
 *         SR_ENOMEM
 * Cost:   about 1 ms for 1,000 sequences in 10 batches. */
sr_status sr_fill_solve(sr_fill *out, const uint16_t *length, int64_t n, const sr_fill_opts *opts);
void sr_fill_free(sr_fill *f); /* resets it to empty */

#ifdef __cplusplus
}
#endif
#endif
