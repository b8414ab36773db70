/* depth.h - how many sequences a pack should be allowed to hold.
 *
 * A smaller depth makes for smaller batches of [CLS] rows and steadier work; a larger one packs
 * tighter.  Beyond some depth nothing is gained: this finds it.
 */
#ifndef SR_PACK_DEPTH_H
#define SR_PACK_DEPTH_H

#include "core/pack/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SR_DEPTH_AUTO = -1
}; /* in a loader's options: max_seqs chosen so for every epoch's lengths */

#define SR_DEPTH_TOLERANCE 0.0005 /* unless somebody says otherwise */

typedef struct sr_depth_choice {
    int32_t max_seqs;
    int64_t packs;       /* at that depth */
    int64_t bound;       /* no depth needs fewer than this */
    int64_t packs_below; /* what one less would need, or its lower bound; 0: max_seqs is 1, or no
                            time */
    char reason[200];    /* one sentence */
} sr_depth_choice;

/* The smallest depth whose packing is within `tolerance` (0.0005 is 0.05 per cent) of the lower
 * bound without limit on depth.  Solves a few packings by opts->solver; opts->max_seqs is ignored.
 * Starts from the depth below which the count of sequences alone forbids it.  With opts->seconds
 * two thirds of them are for the choice, which is the least depth found to be enough by then. */
sr_status sr_pack_choose_depth(sr_depth_choice *out, const sr_histogram *hist,
                               const sr_pack_opts *opts, double tolerance);

#ifdef __cplusplus
}
#endif
#endif
