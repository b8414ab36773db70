/* epoch.h - all that an epoch needs: its examples, the plan of their packs, and who goes where.
 *
 * Examples drawn from text are other ones every epoch, so each epoch has its own and its own plan;
 * given examples keep both for ever.  Once an epoch stands, any pack of it is found at once.
 */
#ifndef SR_BATCH_EPOCH_H
#define SR_BATCH_EPOCH_H

#include "core/data/examples.h"
#include "core/pack/depth.h"
#include "core/pack/instances.h"
#include "core/pack/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable but for the count of references, which is safe from any thread. */
typedef struct sr_epoch {
    uint32_t epoch; /* of the draws; 0 for given examples */
    sr_examples *examples;
    sr_plan *plan;
    sr_packing *packing; /* NULL unless packs are drawn from it */
    int64_t packs;
    double seconds;   /* what building it took */
    char reason[200]; /* why this depth, when it was chosen by itself; else empty */
    int32_t refs;
} sr_epoch;

/* Builds an epoch with one reference.
 *
 *   examples  its epoch and seed count
 *   solve   solver and max_seqs (or SR_DEPTH_AUTO); of no effect when `saved` fits
 *   saved   a plan made before, used when it is one of these lengths; NULL: none
 *   bind    whether packs of the epoch will be drawn: makes `packing`
 *   threads    for the draws; NULL: the caller's thread alone
 *
 * Errors: those of sr_examples_build(), sr_pack_solve(), sr_packing_new(). */
sr_status sr_epoch_build(sr_epoch **out, const sr_dataset *d, const sr_examples_opts *examples,
                         const sr_pack_opts *solve, const sr_plan *saved, bool bind,
                         sr_threads *threads);
sr_epoch *sr_epoch_retain(sr_epoch *e);
void sr_epoch_release(sr_epoch *e); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
