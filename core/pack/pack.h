/* pack.h - decides which sequence lengths share a row.
 *
 * Short sequences leave most of a 512-token row empty.  A solver turns a histogram of lengths into
 * a plan: patterns of lengths that fit one row, and how often each is used.  Sequences are assigned
 * to slots later, for each epoch, by instances.h.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_pack_opts {
    const char *solver; /* NULL: "optimal" */
    int32_t max_seqs;   /* maximum sequences per pack, 0: no limit */
    int64_t iterations; /* simplex steps of `optimal` and `nnlshp`, 0: the solver's default */
    uint64_t seed;      /* `online` on a histogram: the order of the stream */
    int32_t open;       /* `online`: open packs, 0: 64 */
    double seconds;     /* time limit, returns the best so far; not reproducible; 0: none */
    /* A solver of the caller's instead of `solver`; NULL: none.  Its plan is of this histogram. */
    sr_status (*own)(sr_plan **out, const sr_histogram *hist, const struct sr_pack_opts *opts);
    void *own_context;
} sr_pack_opts;

/* Packs `hist` and stores a new plan in *out.
 *
 *   out    owned by the caller, freed by sr_plan_free(); NULL on failure
 *   hist   its capacity is that of the packs
 *
 * Errors: SR_EINVAL  the solver is unknown (the message lists all), max_seqs is negative
 *         SR_ENOMEM  the plan does not fit in memory
 */
sr_status sr_pack_solve(sr_plan **out, const sr_histogram *hist, const sr_pack_opts *opts);

/* The name of solver i, from 0, the default first; NULL after the last. */
const char *sr_pack_solver(int i);

SR_END_C
