/* twin.h - a second copy of what a step of an optimizer changes, and hashes of it: for computing a
 * step again and comparing it to the bit.
 *
 * The state is the values (their bf16 copy, their average), the moments and the counts of steps.
 * Hashes are XXH3-64, one for each chunk of SR_CHUNK elements of each parameter in order, whatever
 * the rank: those of all ranks, one after the other, are those of one optimizer over the whole
 * store.
 */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/train/optim.h"

SR_BEGIN_C

/* What of the state is meant; SR_HELD_COPIES only where ops read a bf16 copy. */
typedef enum sr_held {
    SR_HELD_GRADIENT,
    SR_HELD_WEIGHTS,
    SR_HELD_COPIES,
    SR_HELD_FIRST,
    SR_HELD_SECOND,
    SR_HELD_AVERAGE /* where the optimizer keeps one */
} sr_held;
enum { SR_HELD_KINDS = 6 };

/* The chunks of all parameters. */
int64_t sr_hash_count(const sr_params *params);
/* Those of the parameters before `param`. */
int64_t sr_hash_before(const sr_params *params, int64_t param);

/* Writes the hashes of the chunks in `range` (of elements of the store, which cuts none) to `out`,
 * with room for sr_hash_count(), and their number to *count.  Of the moments, and of stale masters,
 * there is the optimizer's own range only; the second moment of a matrix of Muon is not state, so
 * its hashes are 0.  Waits for the device.
 *
 * Errors: SR_ENOMEM */
sr_status sr_hash_state(uint64_t *out, int64_t *count, const sr_optim *optim, sr_held what,
                        sr_range range);

typedef struct sr_twin sr_twin;

/* The first difference between the twin and the optimizer. */
typedef struct sr_twin_difference {
    sr_held what;
    int64_t param;    /* -1: there is none */
    int64_t element;  /* of the parameter */
    int64_t elements; /* that differ, of all of the state */
} sr_twin_difference;

/* Takes memory for a copy; results of steps must have been read (sr_optim_read_results()) before
 * each of the calls below.
 *
 * Errors: SR_ENOMEM */
sr_status sr_twin_new(sr_twin **out, sr_optim *optim);
void sr_twin_free(sr_twin *twin); /* may be NULL */

sr_status sr_twin_take(sr_twin *twin); /* the twin becomes a copy */
sr_status sr_twin_swap(sr_twin *twin); /* the two change places */
sr_status sr_twin_compare(sr_twin_difference *out, sr_twin *twin);

SR_END_C
