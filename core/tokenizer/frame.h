/* frame.h - the special tokens around texts: lead A tail, or lead A middle B tail.
 *
 * BERT writes [CLS] A [SEP] B [SEP], RoBERTa <s> A </s> </s> B </s>; a family without token types
 * gives type 0 to all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

enum { SR_FRAME_LIMIT = 8 }; /* special tokens in one place of a frame */

typedef struct sr_frame_part {
    int32_t count;
    int32_t ids[SR_FRAME_LIMIT];
    uint8_t types[SR_FRAME_LIMIT];
} sr_frame_part;

/* `types` are the token types of A and B; each special has its own. */
typedef struct sr_frame {
    sr_frame_part lead, middle, tail; /* middle is empty for a single text */
    uint8_t types[2];
} sr_frame;

/* The number of special tokens. */
static inline int32_t sr_frame_size(const sr_frame *f) {
    return f->lead.count + f->middle.count + f->tail.count;
}

SR_END_C
