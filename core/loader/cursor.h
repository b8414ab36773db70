/* cursor.h - the position of a loader: what it draws next, and totals of what it has drawn. */
#pragma once

#include <stdint.h>

/* Totals over all updates before this position. */
typedef struct sr_counters {
    int64_t updates, sequences;
    int64_t raw_tokens;  /* of these sequences before a stage truncated them */
    int64_t real_tokens; /* as trained on */
    int64_t masked_tokens;
    int64_t words; /* as white space separates them; 0 where the data set has not counted them */
} sr_counters;

typedef struct sr_cursor {
    uint32_t epoch;
    int64_t position; /* packs (by packs) or sequences (by sequences) drawn of the epoch */
    int32_t stage;    /* of the last update drawn */
    int64_t packs;    /* packs per update, by packs; 0: undetermined */
    sr_counters drawn;
} sr_cursor;
