/* postprocess.h - the post-processor of a tokenizer.json: the special tokens around a text and
 * around a pair, and whether offsets leave out spaces. */
#pragma once

#include <stdbool.h>

#include "core/tokenizer/frame.h"
#include "core/tokenizer/json_at.h"

SR_BEGIN_C

typedef struct sr_postprocess {
    sr_frame frames[2];     /* of a single text, of a pair */
    bool framed;            /* by the file */
    bool trim, trim_prefix; /* offsets leave out spaces; but not one that was added */
} sr_postprocess;

/* Reads a post-processor; absent: nothing changes. */
sr_status sr_postprocess_read(sr_postprocess *p, const sr_json *at);

/* Appends a special token to a part that has room. */
static inline void sr_frame_add(sr_frame_part *p, int32_t id, int type) {
    p->ids[p->count] = id;
    p->types[p->count++] = (uint8_t)type;
}

SR_END_C
