/* part.h - which shares of an update each rank makes: a run of neighbours, as many as the others'
 * or one more, so that most of their sums meet on one rank (core/train/shares.h).
 */
#ifndef SR_BATCH_PART_H
#define SR_BATCH_PART_H

#include <stdint.h>

/* The first share of rank `rank`, from 0, of `ranks`; its last is before the first of the next.
 * Rank 0, which keeps the books, always has one. */
static inline int64_t sr_part_first(int64_t shares, int rank, int ranks) {
    return (shares * rank + ranks - 1) / ranks;
}

#endif
