/* depth.h - chooses the depth, the maximum number of sequences per pack.
 *
 * A smaller depth gives smaller batches of [CLS] rows and more even work; a larger one packs
 * tighter.  Above some depth there is no gain: this finds it.
 */
#pragma once

#include "core/pack/pack.h"

SR_BEGIN_C

enum { SR_DEPTH_AUTO = -1 }; /* in loader options: choose max_seqs for the lengths of every epoch */

#define SR_DEPTH_TOLERANCE 0.0005 /* the default */

typedef struct sr_depth_choice {
    int32_t max_seqs;
    int64_t packs;       /* at that depth */
    int64_t bound;       /* lower bound for any depth */
    int64_t packs_below; /* packs for one less, or their lower bound; 0: max_seqs is 1, or no
                            time */
    char reason[200];    /* a sentence */
} sr_depth_choice;

/* The smallest depth whose packing is within `tolerance` (0.0005 is 0.05 per cent) of the lower
 * bound for unlimited depth.  Solves a few packings by opts->solver; opts->max_seqs is ignored.
 * Starts from the depth below which the count bound rules it out, and solves for no depth that a
 * bound rules out.  If opts->seconds is set, two
 * thirds of it are for the choice: the least depth found to be sufficient by then. */
sr_status sr_pack_choose_depth(sr_depth_choice *out, const sr_histogram *hist,
                               const sr_pack_opts *opts, double tolerance);

SR_END_C
