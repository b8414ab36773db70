/* ranking.h - numbers in ascending order, ties in the order in which they came.
 *
 * Items are sorted in runs; full runs go to a temporary file and are merged while they are read, so
 * memory does not depend on the number of items: 32 bytes for each item of a run.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_RANKING_RUN = 1 << 20 }; /* the default number of items of a run */

typedef struct sr_ranked {
    double value;   /* -0.0 is returned as 0.0 */
    uint32_t index; /* how many items came before it */
} sr_ranked;

typedef struct sr_ranking sr_ranking;

/* Begins with no items.
 *
 *   scratch  path of the temporary file, created when the second run begins and unlinked at once;
 *            a file of this name is replaced
 *   run      items of a run, 0: the default */
sr_status sr_ranking_new(sr_ranking **out, const char *scratch, int64_t run);
void sr_ranking_free(sr_ranking *r); /* may be NULL */

/* Appends items.  SR_EINVAL: NaN, or more than 2^32 - 1 items; SR_EIO, SR_ENOMEM. */
sr_status sr_ranking_add(sr_ranking *r, const double *values, int64_t count);

/* The next items in order: *got of at most `room`, 0 after the last.  Nothing can be added after
 * the first call. */
sr_status sr_ranking_next(int64_t *got, sr_ranking *r, sr_ranked *out, int64_t room);

SR_END_C
