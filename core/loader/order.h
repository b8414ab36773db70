/* order.h - the sequences of an update and their groups, decided separately from making it.
 *
 * An order is a plain value.  Orders are decided sequentially; workers make them into batches in
 * any order.  A group is either a pack, filled by a plan, or sequences that must stay together (the
 * choices of a question): they are packed when the update is made, into one micro-batch.
 */
#pragma once

#include "core/batch/batch.h"
#include "core/loader/cursor.h"
#include "core/loader/epoch.h"

SR_BEGIN_C

/* Zero-initialised: empty. */
typedef struct sr_order {
    sr_pick *pick;      /* (sequences) */
    int64_t *group_end; /* (groups) group g ends before pick[group_end[g]] */
    sr_epoch **epoch;   /* (epochs) retained: the picks point into them */
    int64_t sequences, groups, epochs;
    bool packs;    /* each group is a pack */
    int64_t *rows; /* (groups) rows of each group, which is a batch; NULL: not batches */
    sr_cursor begin, end;
} sr_order;

/* Appends a group of sequences, which may be empty. */
sr_status sr_order_add(sr_order *order, const sr_pick *pick, int64_t n);

/* Declares that the last group is a batch of `rows` rows; all groups of an order are, or none. */
sr_status sr_order_rows(sr_order *order, int64_t rows);

/* Retains an epoch for the lifetime of the order. */
sr_status sr_order_keep(sr_order *order, sr_epoch *e);

/* Adds an order's update, sequences and tokens to the totals. */
void sr_order_count(const sr_order *order, sr_counters *drawn);

/* SR_EINVAL: a uid that the examples do not have, or a max_len that is neither 0 nor theirs. */
sr_status sr_order_check(const sr_examples *x, const uint32_t *uid, int64_t n, int32_t max_len);

/* An order from outside, such as a sampler: uids of one epoch's examples. */
typedef struct sr_given {
    const uint32_t *uid;      /* (sequences) */
    const int64_t *group_end; /* (groups) ascending */
    int64_t sequences, groups;
    int32_t max_len; /* longer sequences are truncated; 0: no limit */
} sr_given;

/* The order of the update that begins at a cursor.  The index of the update is the epoch word of
 * its random keys, so that an example drawn again gets other masks.
 *
 * Errors: SR_EINVAL  a uid out of range or a duplicate, an empty group, max_len out of range */
sr_status sr_order_given(sr_order *out, sr_epoch *e, const sr_given *g, const sr_cursor *begin);

static inline int64_t sr_order_group(const sr_order *order, int64_t g) { /* its first pick */
    return g == 0 ? 0 : order->group_end[g - 1];
}

void sr_order_free(sr_order *order); /* resets it to empty */

SR_END_C
