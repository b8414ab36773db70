/* online.h - packs a stream: best fit over a fixed number of open packs.
 *
 * A sequence goes into the open pack with the least sufficient space.  If there is none, a new pack
 * is opened; if that would exceed the limit, the fullest pack is closed first.  A pack that is full
 * or at the depth limit is closed at once.  The result depends on the order of the stream and the
 * options alone; the state is the open packs.
 */
#pragma once

#include "core/pack/plan.h"

SR_BEGIN_C

typedef struct sr_online sr_online;

/* A closed pack, valid until the next call on the stream. */
typedef struct sr_online_pack {
    const uint32_t *uids;
    const uint16_t *lengths;
    int32_t n; /* 0: no pack was closed */
} sr_online_pack;

/* capacity 1..SR_MAX_LENGTH, max_seqs 0 for no limit, 1 <= open <= 1,048,576. */
sr_status sr_online_new(sr_online **out, int32_t capacity, int32_t max_seqs, int32_t open);
void sr_online_free(sr_online *o); /* may be NULL */

/* Adds a sequence; closes at most one pack.  O(1) on average.  SR_EDATA if it is longer than a
 * pack. */
sr_status sr_online_push(sr_online *o, uint32_t uid, uint32_t length, sr_online_pack *left);

/* Closes the fullest open pack; n is 0 if none is open.  Call until then at the end of an epoch, so
 * that no pack mixes epochs. */
sr_status sr_online_flush(sr_online *o, sr_online_pack *left);

/* The plan of a whole stream: lengths in order. */
sr_status sr_online_plan(sr_plan **out, const sr_lengths *lengths, int32_t capacity,
                         int32_t max_seqs, int32_t open, sr_long_policy policy);

SR_END_C
