/* scan.h - statistics of a data set, from reading it once. */
#ifndef SR_DATA_SCAN_H
#define SR_DATA_SCAN_H

#include "core/data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* count[id] += occurrences of each token in a part; `count` has the size of the vocabulary. */
sr_status sr_scan_tokens(uint64_t *count, const sr_dataset *d, sr_data_part part);

typedef struct sr_repeats {
    int64_t sentences, documents; /* those identical to an earlier one */
} sr_repeats;

/* Sentences and documents of a text that repeat an earlier one, word for word (128-bit hashes).
 * Examples count as documents.  Memory: 16 bytes per sentence. */
sr_status sr_scan_repeats(sr_repeats *out, const sr_dataset *d);

#ifdef __cplusplus
}
#endif
#endif
