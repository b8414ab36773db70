/* stage.h - a stage of a curriculum: which examples are drawn, and how long they may be, until a
 * total is reached.
 *
 * A stage may select sequences, truncate long ones, or draw text with other options.  Uids do not
 * change.  A stage ends when a total of the cursor is reached; the last one has no end.
 *
 * By sequences, a stage that draws from the same sequences as the previous one continues its pass;
 * any other starts a new pass.  By packs every stage does, since its lengths have a plan of their
 * own.
 */
#pragma once

#include <stdbool.h>

#include "core/loader/cursor.h"
#include "core/data/examples.h"

SR_BEGIN_C

typedef struct sr_stage {
    sr_counters until;         /* it ends when one of these totals is reached; 0: ignored */
    int32_t max_len;           /* longer sequences are truncated before packing; 0: the loader's */
    int32_t shortest, longest; /* length range of sequences, before truncation; 0: any */
    bool text;                 /* use short_seq_prob */
    double short_seq_prob;
    const uint32_t *uid; /* (uids) fixed examples to draw from, ascending; NULL: all */
    int64_t uids;
} sr_stage;

/* SR_EINVAL names the stage (from 1) and the problem. */
sr_status sr_stages_check(const sr_stage *stage, int stages, const sr_dataset *d,
                          const sr_examples_opts *opts);

/* The stage that is due after these totals; 0 without stages. */
int sr_stage_due(const sr_stage *stage, int stages, const sr_counters *drawn);

/* Whether two stages draw from the same sequences, regardless of truncation. */
bool sr_stage_same_set(const sr_stage *a, const sr_stage *b);

/* Copies that own their uids, freed by sr_stages_free(). */
sr_status sr_stages_copy(sr_stage **out, const sr_stage *stage, int stages);
void sr_stages_free(sr_stage *stage, int stages); /* may be NULL */

SR_END_C
