/* target.h - what a head predicts: rows of the buffer, labels, weights.
 *
 *     reads       rows                       labels
 *     rows        one per item               the label of the token
 *     sequences   [CLS], one per item        the label of the sequence
 *     spans       first and last token,      the same as positions in the sequence, [CLS] is 0
 *                 two per item
 *
 * The weights of an update's targets carry the denominators of the whole update (update.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

typedef enum sr_reads { SR_READS_ROWS, SR_READS_SEQUENCES, SR_READS_SPANS } sr_reads;

typedef enum sr_label_type { SR_LABEL_I32, SR_LABEL_F32 } sr_label_type;

/* The loss is a mean over items (masked tokens), or over the means of sequences. */
typedef enum sr_mean { SR_MEAN_TOKEN, SR_MEAN_SEQUENCE } sr_mean;

typedef struct sr_target {
    const char *name; /* lives as long as the batch */
    sr_reads reads;
    sr_label_type type;
    sr_mean mean;
    int32_t columns;    /* labels per item */
    int64_t count;      /* items */
    int64_t sequences;  /* that have items */
    int32_t *rows;      /* (count), spans (count x 2); ascending by sequence */
    int32_t *places;    /* like rows: position of each in the batch's `last` layout */
    void *labels;       /* (count x columns) int32_t or float */
    float *weights;     /* (count) */
    double denominator; /* of the whole update */
    bool deferred;      /* set by sr_batch_set_target() */
    void *own;          /* allocation of a deferred target's arrays, else NULL */
} sr_target;

static inline int sr_rows_each(sr_reads reads) {
    return reads == SR_READS_SPANS ? 2 : 1;
}

SR_END_C
