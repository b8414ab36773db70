/* batch.h - sequences collated into one buffer of tokens, masked, with their targets: the input of
 * one forward and backward pass.
 */
#pragma once

#include "core/batch/collate.h"
#include "core/batch/layout.h"

SR_BEGIN_C

enum { SR_ROWS_UNIT = 128 }; /* T is a multiple of it */

/* The arrangement of sequences in the buffer. */
typedef enum sr_arrange {
    SR_PACKED, /* contiguous; all slack is at the end */
    SR_PADDED, /* one per row of max_len, followed by slack */
    SR_SINGLE, /* one per batch */
    SR_LONGEST /* as padded, rows as long as the longest of a batch; of chosen examples only */
} sr_arrange;

typedef struct sr_batch {
    sr_layout *layout;
    int32_t *ids, *types;  /* (T) after masking; slack is [PAD], type 0 */
    int32_t *original_ids; /* (T) before masking; NULL if not requested */
    sr_target *target;     /* one per collator, in order */
    int targets;
    sr_layout *last;    /* the rows that targets read, whole sequences for spans: all that the
                           last layer must compute but keys and values; NULL without targets */
    int32_t *last_rows; /* (rows of last) position of each in `layout` */
    int32_t *source;    /* (sequences) of the data set, from 0; NULL if it has one */
    int64_t sequences, tokens; /* real ones */
    int64_t slots;             /* T */
    int64_t masked;            /* masked tokens */
    int32_t share;             /* of its update, from 0 */
} sr_batch;

/* A sequence of a batch: an example of an epoch (the key of its mask and dropout). */
typedef struct sr_pick {
    const sr_examples *examples;
    uint32_t uid, epoch;
    int32_t limit; /* longer sequences are truncated, see sr_example_cut(); 0: none */
    int32_t piece; /* from 1: this piece of at most `limit` tokens, instead of truncating */
    double mask;   /* fraction of masked tokens; 0: the masker's */
    int32_t stage; /* concepts up to it are masked, see concepts.h; 0: none */
} sr_pick;

static inline sr_example sr_pick_example(const sr_pick *p) {
    const sr_example *e = &p->examples->example[p->uid];
    return p->piece > 0 ? sr_example_piece(e, p->limit, p->piece) : sr_example_cut(e, p->limit);
}

static inline int32_t sr_pick_length(const sr_pick *p) {
    if (p->piece > 0) {
        sr_example e = sr_pick_example(p);
        return sr_example_length(&e);
    }
    int32_t len = sr_example_length(&p->examples->example[p->uid]);
    return p->limit > 0 && len > p->limit ? p->limit : len;
}

/* Collates n >= 1 sequences; weights are not set yet, see update.h.
 *
 *   stride  0: contiguous; else sequence i starts at row i x stride
 *   rows    minimum of T; 0: as many as needed; rounded up to SR_ROWS_UNIT
 *
 * Errors: SR_EINVAL (a uid that is not an example), those of sr_example_sequence() and of
 * collators, SR_ENOMEM. */
sr_status sr_batch_make(sr_batch **out, const sr_dataset *d, const sr_collators *collators,
                        const sr_pick *pick, int32_t n, int32_t stride, int64_t rows,
                        uint64_t seed);

/* Sets the items of a deferred target: copies `count` rows and count x columns labels.
 *
 * Errors: SR_EINVAL  the target is not deferred; a row in no sequence; rows not in the order of
 *                    sequences; SR_ENOMEM */
sr_status sr_batch_set_target(sr_batch *b, int target, int64_t count, const int32_t *rows,
                              const void *labels);

/* Recomputes `last` and the places of targets; sr_batch_make() does this unless a target is
 * deferred.
 */
sr_status sr_batch_find_last(sr_batch *b);

void sr_batch_free(sr_batch *b); /* may be NULL */

/* The items of a target in batches that are not made here. */
typedef struct sr_target_count {
    int64_t items, sequences; /* sequences that have items */
} sr_target_count;

/* Adds the items that sr_batch_make() would find to count (collators->count) and *masked, without
 * making a batch: a process that makes some shares of an update needs the denominators of the whole
 * update.  Tokens are read only when a target cannot be counted from lengths.  Deferred targets are
 * not counted.  Errors: those of sr_batch_make(). */
sr_status sr_batch_count_targets(sr_target_count *count, int64_t *masked, const sr_dataset *d,
                                 const sr_collators *collators, const sr_pick *pick, int64_t n);

SR_END_C
