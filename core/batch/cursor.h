/* cursor.h - where a loader stands: what it draws next, and what it has drawn before. */
#ifndef SR_BATCH_CURSOR_H
#define SR_BATCH_CURSOR_H

#include <stdint.h>

/* Totals over all updates before this place. */
typedef struct sr_counters {
    int64_t updates, sequences;
    int64_t raw_tokens;  /* of these sequences before a stage cut them */
    int64_t real_tokens; /* as trained on */
    int64_t masked_tokens;
} sr_counters;

typedef struct sr_cursor {
    uint32_t epoch;
    int64_t position; /* packs (by packs) or sequences (by sequences) drawn of the epoch */
    int32_t stage;    /* of the last update drawn */
    int64_t packs;    /* packs an update, by packs; 0: not settled */
    sr_counters drawn;
} sr_cursor;

#endif
