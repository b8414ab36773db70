/* scan.h - statistics of a data set, from reading it once. */
#pragma once

#include "core/data/dataset.h"

SR_BEGIN_C

/* count[id] += occurrences of each token in a part; `count` has the size of the vocabulary. */
sr_status sr_scan_tokens(uint64_t *count, const sr_dataset *d, sr_data_part part);

typedef struct sr_repeats {
    int64_t sentences, documents; /* those identical to an earlier one */
} sr_repeats;

/* Sentences and documents of a text that repeat an earlier one, word for word (128-bit hashes).
 * Examples count as documents.  Memory: 16 bytes per sentence. */
sr_status sr_scan_repeats(sr_repeats *out, const sr_dataset *d);

typedef struct sr_overlap {
    int64_t count;       /* examples of the second that are also in the first */
    int64_t first, twin; /* the first of them, and its duplicate; -1: none */
} sr_overlap;

/* Examples that two data sets of one vocabulary share (128-bit hashes of their tokens).  Memory: 24
 * bytes per example of the first. */
sr_status sr_scan_overlap(sr_overlap *out, const sr_dataset *first, const sr_dataset *second);

typedef struct sr_unit_hash {
    uint64_t low, high;
} sr_unit_hash;

/* A hash of each unit: of its tokens and of where A ends, so that equal ones have equal hashes. */
sr_status sr_scan_hashes(sr_unit_hash *out, const sr_dataset *d);

typedef struct sr_longer {
    int64_t count, first; /* fixed examples that are longer, and the first of them or -1 */
    int64_t longest;      /* tokens of the longest of all */
} sr_longer;

/* Fixed examples of more than max_len tokens, [CLS] and [SEP] included. */
sr_longer sr_scan_longer(const sr_dataset *d, int64_t max_len);

SR_END_C
