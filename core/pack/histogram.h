/* histogram.h - the number of sequences of each length, which is the input of packing solvers.
 *
 * A histogram comes from the lengths of the examples, or from a .hist file: plain text, line l
 * has the number of sequences of l tokens.  Counts have 63 bits, and so has sequences * capacity,
 * the number of slots of the worst plan, so that no later sum overflows an int64_t.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_MAX_LENGTH = 65535 };

/* What to do with a sequence that is longer than a pack. */
typedef enum sr_long_policy {
    SR_LONG_ERROR,    /* reject it */
    SR_LONG_TRUNCATE, /* count it as `capacity` tokens, drop the rest */
    SR_LONG_SPLIT     /* count it as pieces of `capacity` tokens, and the rest */
} sr_long_policy;

/* Lengths of the sequences, borrowed: uid -> tokens. */
typedef struct sr_lengths {
    const void *data; /* uint16_t[count] or uint32_t[count] */
    int32_t width;    /* bytes per element: 2 or 4 */
    int64_t count;
} sr_lengths;

static inline uint32_t sr_length_at(const sr_lengths *lengths, int64_t uid) {
    return lengths->width == 2 ? ((const uint16_t *)lengths->data)[uid]
                               : ((const uint32_t *)lengths->data)[uid];
}

typedef struct sr_histogram {
    int64_t *count;    /* count[l], 1 <= l <= capacity; count[0] is 0; owned */
    int32_t capacity;  /* tokens per pack, 1..SR_MAX_LENGTH */
    int64_t sequences; /* sum of count[l]; with `split`, pieces */
    int64_t tokens;    /* sum of l * count[l] */
    int64_t longer;    /* sequences that were truncated or split */
    int64_t lost;      /* tokens removed by truncation */
} sr_histogram;

/* Creates an empty histogram; SR_EINVAL unless 1 <= capacity <= SR_MAX_LENGTH.  Freed by
 * sr_histogram_free(), which resets it and may be called twice. */
sr_status sr_histogram_new(sr_histogram *out, int64_t capacity);
void sr_histogram_free(sr_histogram *h);

/* Adds n sequences of `length` tokens, by the policy if length > capacity.
 * Errors: SR_EDATA for a length of 0, a length above capacity under SR_LONG_ERROR, or overflow of a
 * total; then h is unchanged. */
sr_status sr_histogram_add(sr_histogram *h, int64_t length, int64_t n, sr_long_policy policy);

/* Counts lengths in one pass.  Errors like sr_histogram_add(); the message names the uid. */
sr_status sr_histogram_count(sr_histogram *out, const sr_lengths *lengths, int64_t capacity,
                             sr_long_policy policy);

sr_status sr_histogram_copy(sr_histogram *out, const sr_histogram *h);

/* The same sequences for packs of another capacity; `longer` and `lost` count from 0. */
sr_status sr_histogram_fit(sr_histogram *out, const sr_histogram *h, int64_t capacity,
                           sr_long_policy policy);

/* Parses the text of a .hist file.  capacity 0 means the number of lines; else the policy applies
 * to non-zero lines beyond it.  `name` is for messages. Errors: SR_EDATA names the line: not an
 * integer, a count above 2^63 - 1, a line beyond SR_MAX_LENGTH; also a file without lines. */
sr_status sr_histogram_parse(sr_histogram *out, const void *bytes, size_t size, const char *name,
                             int64_t capacity, sr_long_policy policy);
sr_status sr_histogram_load(sr_histogram *out, const char *path, int64_t capacity,
                            sr_long_policy policy);

/* Writes the text form to `path`, atomically: `capacity` lines. */
sr_status sr_histogram_save(const sr_histogram *h, const char *path);

/* These lengths in a random order given by the seed; *out is freed by sr_free().  SR_EDATA for
 * 2^32 - 1 sequences or more. */
sr_status sr_histogram_shuffled(uint16_t **out, const sr_histogram *h, uint64_t seed);

/* A piece of a sequence under SR_LONG_SPLIT: `length` tokens from `start` of sequence uid. */
typedef struct sr_split_piece {
    uint32_t uid, start;
    uint16_t length;
} sr_split_piece;

/* The pieces of all sequences, sorted by (uid, start), freed by sr_free(): new sequences, whose
 * lengths can be packed. */
sr_status sr_lengths_split(sr_split_piece **out, int64_t *count, const sr_lengths *lengths,
                           int64_t capacity);

SR_END_C
