/* histogram.h - how many sequences there are of each length: all that a packing solver sees.
 *
 * A histogram comes from the lengths of an example table, or from a .hist file: plain text, line l
 * holds the number of sequences of l tokens.  Counts are 63-bit; so is sequences * capacity, the
 * number of slots of the worst plan, which keeps every later sum inside an int64_t.
 */
#ifndef SR_PACK_HISTOGRAM_H
#define SR_PACK_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_MAX_LENGTH = 65535 };

/* What to do with a sequence that is longer than a pack. */
typedef enum sr_long_policy {
    SR_LONG_ERROR,    /* refuse */
    SR_LONG_TRUNCATE, /* count it as `capacity` tokens, the rest is lost */
    SR_LONG_SPLIT /* count it as pieces: as many of `capacity` tokens as it holds, and the rest */
} sr_long_policy;

/* Lengths of the sequences of an example table, borrowed: uid -> tokens. */
typedef struct sr_lengths {
    const void *data; /* uint16_t[count] or uint32_t[count] */
    int32_t width;    /* bytes of an element: 2 or 4 */
    int64_t count;
} sr_lengths;

static inline uint32_t sr_length_at(const sr_lengths *lengths, int64_t uid) {
    return lengths->width == 2 ? ((const uint16_t *)lengths->data)[uid]
                               : ((const uint32_t *)lengths->data)[uid];
}

typedef struct sr_histogram {
    int64_t *count;    /* count[l], 1 <= l <= capacity; count[0] is 0; owned */
    int32_t capacity;  /* tokens of a pack, 1..SR_MAX_LENGTH */
    int64_t sequences; /* sum of count[l]: after `split`, pieces */
    int64_t tokens;    /* sum of l * count[l] */
    int64_t longer;    /* sequences that a policy truncated or split */
    int64_t lost;      /* tokens that truncation cut off */
} sr_histogram;

/* An empty histogram; SR_EINVAL unless 1 <= capacity <= SR_MAX_LENGTH.  Freed by
 * sr_histogram_free(), which leaves an empty shell and may be called twice. */
sr_status sr_histogram_new(sr_histogram *out, int64_t capacity);
void sr_histogram_free(sr_histogram *h);

/* n more sequences of `length` tokens, by the policy when length > capacity.
 * Errors: SR_EDATA for a length of 0, a length above capacity under SR_LONG_ERROR, or totals that
 * leave 63 bits; h stands as it was. */
sr_status sr_histogram_add(sr_histogram *h, int64_t length, int64_t n, sr_long_policy policy);

/* Counts lengths, one pass.  Errors as sr_histogram_add; the message names the uid. */
sr_status sr_histogram_count(sr_histogram *out, const sr_lengths *lengths, int64_t capacity,
                             sr_long_policy policy);

sr_status sr_histogram_copy(sr_histogram *out, const sr_histogram *h);

/* The same sequences for packs of another capacity; `longer` and `lost` count from 0. */
sr_status sr_histogram_fit(sr_histogram *out, const sr_histogram *h, int64_t capacity,
                           sr_long_policy policy);

/* Reads the text of a .hist file.  capacity 0 means the number of lines; else lines beyond it that
 * are not 0 meet the policy.  `name` is for messages.
 * Errors: SR_EDATA names the line: not a whole number, a count above 2^63 - 1, a line beyond
 * SR_MAX_LENGTH; also a file without lines. */
sr_status sr_histogram_parse(sr_histogram *out, const void *bytes, size_t size, const char *name,
                             int64_t capacity, sr_long_policy policy);
sr_status sr_histogram_load(sr_histogram *out, const char *path, int64_t capacity,
                            sr_long_policy policy);

/* Replaces `path` by the text form: `capacity` lines. */
sr_status sr_histogram_save(const sr_histogram *h, const char *path);

/* A stream of these lengths in an order drawn by the seed, *out freed by sr_free().  SR_EDATA for
 * 2^32 - 1 sequences or more. */
sr_status sr_histogram_deal(uint16_t **out, const sr_histogram *h, uint64_t seed);

/* A piece of a sequence under SR_LONG_SPLIT: `length` tokens from `start` of sequence uid. */
typedef struct sr_piece {
    uint32_t uid, start;
    uint16_t length;
} sr_piece;

/* The pieces of all sequences in order of (uid, start), freed by sr_free(): an example table of
 * its own, whose lengths a plan and its instances then serve. */
sr_status sr_lengths_split(sr_piece **out, int64_t *count, const sr_lengths *lengths,
                           int64_t capacity);

#ifdef __cplusplus
}
#endif
#endif
