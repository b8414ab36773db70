/* groups.h - open packs of the greedy solvers, grouped by free space.
 *
 * Internal to core/pack.  A group is `count` packs with the same contents, which are a chain: the
 * last part placed, then the group it was placed into.  Groups with the same free space form a
 * stack or a queue; a two-level bit set finds the next space with a group.  Costs depend on the
 * number of different lengths, not on the number of sequences.
 */
#pragma once

#include <stdbool.h>

#include "core/pack/build.h"

SR_BEGIN_C

typedef struct sr_group {
    int64_t count;
    int32_t parent; /* the group before its last part was added; -1 for none */
    int32_t next;   /* the next group in the stack or queue; -1 for none */
    int32_t members;
    uint16_t length, copies; /* the last part */
} sr_group;

typedef struct sr_groups {
    sr_group *group;
    int32_t used, room;
    int32_t capacity, max_seqs; /* max_seqs > 0 here; the capacity if there is no limit */
    int32_t *head, *tail;       /* by free space, -1 if empty */
    uint64_t *bit, *summary;    /* spaces that have a group; words of `bit` that are not 0 */
    bool queue;                 /* oldest first instead of newest first */
} sr_groups;

sr_status sr_groups_new(sr_groups *g, int32_t capacity, int32_t max_seqs, bool queue);
void sr_groups_free(sr_groups *g);

/* The smallest (largest) space >= (<=) `space` with a group, or -1. */
int32_t sr_groups_above(const sr_groups *g, int32_t space);
int32_t sr_groups_below(const sr_groups *g, int32_t space);

/* Adds `copies` of `length` to `count` packs of the group at the head of `space` (-1: new packs).
 * The result is open again unless it is full or at the depth limit. */
sr_status sr_groups_place(sr_groups *g, int32_t space, int64_t count, int32_t length,
                          int32_t copies);

/* Adds every group as a pattern. */
sr_status sr_groups_build(sr_builder *b, const sr_groups *g);

SR_END_C
