/* fit.h - packs the sequences of an update.  Internal to core/batch. */
#ifndef SR_BATCH_FIT_H
#define SR_BATCH_FIT_H

#include "core/batch/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts n >= 1 picks into packs, by the solver and max_seqs of the options.
 *
 *   end  (n) pack p ends before pick[end[p]]
 *   key  of the random assignment among equal lengths
 *
 * Errors: those of sr_pack_solve(). */
sr_status sr_fit(sr_pick *pick, int64_t n, int64_t *end, int64_t *packs, const sr_loader_opts *opts,
                 uint32_t key);

#ifdef __cplusplus
}
#endif
#endif
