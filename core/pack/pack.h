/* pack.h - decide which sequence lengths share a row.
 *
 * Short sequences leave most of a 512-token row empty.  A solver turns a histogram of lengths into
 * a plan: patterns of lengths that fit one row, and how often each is used.  Which sequence takes
 * which slot is drawn later, epoch by epoch, in instances.h.
 */
#ifndef SR_PACK_PACK_H
#define SR_PACK_PACK_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_pack_opts {
    const char *solver; /* NULL: "optimal" */
    int32_t max_seqs;   /* sequences a pack may hold, 0: any number */
    int64_t iterations; /* simplex steps of `optimal` and `nnlshp`, 0: the solver's own bound */
    uint64_t seed;      /* `online` from a histogram: the order of the stream */
    int32_t open;       /* `online`: open packs, 0: 64 */
    double seconds;     /* stop then with the best so far, 0: never; not reproducible */
} sr_pack_opts;

/* Packs `hist` and stores a new plan in *out.
 *
 *   out    owned by the caller, freed by sr_plan_free(); NULL on failure
 *   hist   its capacity is the capacity of the packs
 *
 * Errors: SR_EINVAL  the solver is unknown (the message lists all), max_seqs is negative
 *         SR_ENOMEM  the plan does not fit in memory
 */
sr_status sr_pack_solve(sr_plan **out, const sr_histogram *hist, const sr_pack_opts *opts);

/* The name of solver i, from 0, the default first; NULL behind the last. */
const char *sr_pack_solver(int i);

#ifdef __cplusplus
}
#endif
#endif
