/* stage.h - what an epoch's examples are until so much was drawn: a curriculum in the loader.
 *
 * A stage may draw from some sequences only, cut long ones, or draw text with other options.  Uids
 * stay those of all examples.  Stages follow each other when a total of the cursor
 * is reached; the last one has no end.
 *
 * A stage that draws from the same sequences as the one before goes on in the same pass (by
 * sequences); any other begins a pass of its own, and so does every stage by packs, since its
 * lengths have another plan.
 */
#ifndef SR_BATCH_STAGE_H
#define SR_BATCH_STAGE_H

#include <stdbool.h>

#include "core/batch/cursor.h"
#include "core/data/examples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_stage {
    sr_counters until;         /* it ends when one of these totals is reached; 0: no matter */
    int32_t max_len;           /* longer sequences are cut to it before packing; 0: the loader's */
    int32_t shortest, longest; /* only sequences of so many tokens, before they are cut; 0: any */
    bool text;                 /* short_seq_prob is given */
    double short_seq_prob;
    const uint32_t *uid; /* (uids) of given examples, rising: only these; NULL: all */
    int64_t uids;
} sr_stage;

/* SR_EINVAL names the stage (from 1) and what is wrong with it. */
sr_status sr_stages_check(const sr_stage *stage, int stages, const sr_dataset *d,
                          const sr_examples_opts *opts);

/* The stage that is due after these totals; 0 without stages. */
int sr_stage_due(const sr_stage *stage, int stages, const sr_counters *drawn);

/* Whether two stages draw from the same sequences, whatever they are cut to. */
bool sr_stage_same_set(const sr_stage *a, const sr_stage *b);

/* Copies that own their uids, freed by sr_stages_free(). */
sr_status sr_stages_copy(sr_stage **out, const sr_stage *stage, int stages);
void sr_stages_free(sr_stage *stage, int stages); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
