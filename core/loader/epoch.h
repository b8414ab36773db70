/* epoch.h - the data of an epoch: its examples, their packing plan, and the assignment to packs.
 *
 * Text has new examples every epoch, and so a new plan; fixed examples keep both.  Once an epoch is
 * built, any of its packs can be accessed directly.
 */
#pragma once

#include "core/loader/stage.h"
#include "core/data/examples.h"
#include "core/pack/depth.h"
#include "core/pack/instances.h"
#include "core/pack/pack.h"

SR_BEGIN_C

/* Immutable except for the reference count, which is thread-safe. */
typedef struct sr_epoch {
    uint32_t epoch; /* of the draws; 0 for fixed examples */
    int stage;
    sr_examples *examples;
    uint32_t *subset; /* (count) uids that a stage draws from; NULL: all */
    int64_t count;    /* sequences that are drawn */
    sr_plan *plan;
    sr_packing *packing; /* of indices into the subset; NULL unless packs are drawn from it */
    int64_t packs;
    bool saved;       /* an earlier plan was used */
    double seconds;   /* time to build it */
    char reason[200]; /* the reason for an automatic depth; else empty */
    int32_t refs;
} sr_epoch;

static inline uint32_t sr_epoch_uid(const sr_epoch *e, int64_t i) {
    return e->subset != NULL ? e->subset[i] : (uint32_t)i;
}

typedef struct sr_epoch_opts {
    sr_examples_opts examples;
    const sr_pack_opts *solve; /* solver and max_seqs (or SR_DEPTH_AUTO) */
    sr_plan *saved;            /* an earlier plan, shared if it has these lengths; may be NULL */
    const sr_stage *stage;     /* NULL: all sequences, as they are */
    bool bind;                 /* packs of the epoch will be drawn: makes `packing` */
} sr_epoch_opts;

/* Builds an epoch with one reference; `threads` draws examples, NULL: the caller's thread alone.
 *
 * Errors: those of sr_examples_build(), sr_pack_solve(), sr_packing_new(); SR_EDATA if a stage
 * selects nothing. */
sr_status sr_epoch_build(sr_epoch **out, const sr_dataset *d, const sr_epoch_opts *opts,
                         sr_threads *threads);
sr_epoch *sr_epoch_retain(sr_epoch *e);
void sr_epoch_release(sr_epoch *e); /* may be NULL */

SR_END_C
