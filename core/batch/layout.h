/* layout.h - the assignment of rows of a token buffer to sequences.
 *
 * A batch is one buffer of T rows.  Sequence s has the rows start[s] .. start[s] + len[s] - 1; rows
 * of no sequence are slack.  Ops take a layout, never a batch, so that a layer may work on fewer
 * rows than the previous one (random-LTD makes a shorter layout from a longer one), and loss heads,
 * evaluation and the prompt can use the same ops.
 *
 * A layout also has the keys of random decisions about its rows: the seed, and for each sequence
 * its uid and epoch.  Row i of sequence s draws with (seed, i, uid[s], epoch[s]), wherever it is in
 * the buffer.
 *
 * Slack: attention writes zeros there, forward and backward; the results of row-wise ops there are
 * unspecified, never read by rows of sequences, and have a zero gradient.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

/* A copy of a layout's arrays elsewhere: attached to the layout by its maker, dropped with it. */
typedef struct sr_mirror {
    struct sr_mirror *next;
    void (*drop)(struct sr_mirror *mirror);
} sr_mirror;

/* Immutable after creation, shared by reference count, safe to read from any thread. */
typedef struct sr_layout {
    int64_t rows;           /* T; loaders make it a multiple of 128 */
    int32_t sequences;      /* N */
    int32_t *start;         /* (N) first row; ascending, no overlap */
    int32_t *len;           /* (N) at least 1 */
    uint32_t *uid;          /* (N) index of the example in its epoch */
    uint32_t *epoch;        /* (N) */
    int32_t *owner;         /* (T) sequence of each row, -1 for slack */
    int32_t *position;      /* (T) position in its own sequence, from 0; 0 for slack */
    int32_t *longest_first; /* (N) sequence indices by descending length, ties by index */
    uint64_t seed;
    int64_t tokens;  /* sum of len */
    int64_t squares; /* sum of len^2: the cost of attention at any distance */
    int32_t longest; /* 0 without sequences */
    bool gapless;    /* all slack is at the end: start is cu_seqlens */
    int32_t refs;
    sr_mirror *mirrors; /* on devices, for their thread only: core/tensor/layout_on.h */
} sr_layout;

/* A new layout with one reference.  All arrays are copied.
 *
 *   start  (N) or NULL: sequences are contiguous from row 0
 *   uid    (N) or NULL: 0, 1, 2, ...        epoch  (N) or NULL: all 0
 *   rows   T, or 0: the end of the last sequence
 *
 * Errors: SR_EINVAL  a length below 1, overlapping or descending starts, rows too few (the message
 *                    names the sequence and both numbers)
 */
sr_status sr_layout_new(sr_layout **out, int32_t sequences, const int32_t *start,
                        const int32_t *len, const uint32_t *uid, const uint32_t *epoch,
                        int64_t rows, uint64_t seed);

/* The rows of `whole` selected by `keep` (T), contiguous: the same sequences and keys, fewer rows.
 * Slack is never kept; sequences without kept rows are omitted.
 *
 *   rows  (T of the new layout) original index of each row, ascending; freed by sr_free()
 */
sr_status sr_layout_shorten(sr_layout **out, int32_t **rows, const sr_layout *whole,
                            const uint8_t *keep);

/* Checks that rows (M) are rows of sequences, in ascending order.
 *
 * Errors: SR_EINVAL  one is not (the message begins with `op` and names the first)
 */
sr_status sr_layout_check_rows(const char *op, const sr_layout *layout, const int32_t *rows,
                               int64_t count);

/* Pairs of a query and a key that attention keeps: sr_attention_opts (core/tensor/backend.h).
 * Without a window or a causal mask it is `squares`. */
int64_t sr_layout_scores(const sr_layout *layout, int64_t window, bool causal);

/* Attaches a copy to the layout, which may be const: its own contents do not change. */
void sr_layout_add_mirror(const sr_layout *layout, sr_mirror *mirror);

sr_layout *sr_layout_retain(sr_layout *layout);
void sr_layout_release(sr_layout *layout); /* may be NULL */

SR_END_C
