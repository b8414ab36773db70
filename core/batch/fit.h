/* fit.h - packs some sequences among themselves.  For the inside of core/batch. */
#ifndef SR_BATCH_FIT_H
#define SR_BATCH_FIT_H

#include "core/batch/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts n >= 1 picks into the order of packs, by the solver and max_seqs of the options.
 *
 *   end  (n) pack p ends before pick[end[p]]
 *   key  who shares a pack with whom, among equal lengths
 *
 * Errors: those of sr_pack_solve(). */
sr_status sr_fit(sr_pick *pick, int64_t n, int64_t *end, int64_t *packs, const sr_loader_opts *opts,
                 uint32_t key);

#ifdef __cplusplus
}
#endif
#endif
