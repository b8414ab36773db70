/* online.h - packing a stream: best fit over a fixed number of open packs.
 *
 * A sequence goes into the open pack with least space that takes it.  When none does, a new pack is
 * opened, and if that would be one too many, the fullest leaves first.  A pack that is full or as
 * deep as allowed leaves at once.  The result depends on the order of the stream and the options
 * alone; the state is the open packs.
 */
#ifndef SR_PACK_ONLINE_H
#define SR_PACK_ONLINE_H

#include "core/pack/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_online sr_online;

/* A pack that left: borrowed, until the next call on the stream. */
typedef struct sr_online_pack {
    const uint32_t *uids;
    const uint16_t *lengths;
    int32_t n; /* 0: no pack left */
} sr_online_pack;

/* capacity 1..SR_MAX_LENGTH, max_seqs 0 for any number, 1 <= open <= 1,048,576. */
sr_status sr_online_new(sr_online **out, int32_t capacity, int32_t max_seqs, int32_t open);
void sr_online_free(sr_online *o); /* NULL is allowed */

/* Takes a sequence in.  At most one pack leaves.  O(1) on average.  SR_EDATA when it is longer than
 * a pack. */
sr_status sr_online_push(sr_online *o, uint32_t uid, uint32_t length, sr_online_pack *left);

/* The fullest open pack leaves; n is 0 when none is open.  Call until then at the end of an epoch,
 * so that no pack mixes two. */
sr_status sr_online_flush(sr_online *o, sr_online_pack *left);

/* The plan of a whole stream: lengths in their order. */
sr_status sr_online_plan(sr_plan **out, const sr_lengths *lengths, int32_t capacity,
                         int32_t max_seqs, int32_t open, sr_long_policy policy);

#ifdef __cplusplus
}
#endif
#endif
