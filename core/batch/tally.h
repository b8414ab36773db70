/* tally.h - counts the items of targets without making a batch.
 *
 * A process that makes some shares of an update needs the denominators of the whole update.
 */
#ifndef SR_BATCH_TALLY_H
#define SR_BATCH_TALLY_H

#include "core/batch/batch.h"
#include "core/batch/collate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_tally {
    int64_t items, sequences; /* sequences that have items */
} sr_tally;

/* Adds the items that sr_batch_make() would find to tally (collators->count) and *masked.  Tokens
 * are read only when a target cannot be counted from lengths.  Late targets are not counted.
 * Errors: those of sr_batch_make(). */
sr_status sr_tally_add(sr_tally *tally, int64_t *masked, const sr_dataset *d,
                       const sr_collators *collators, const sr_pick *pick, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
