/* mask.h - selects and replaces tokens of a sequence for masked language modelling.
 *
 * A pure function of (seed, uid, epoch) and the sequence: masks do not depend on packs, batches,
 * threads or earlier draws, and change every epoch.
 *
 *   number       max(1, round(prob len)), at most max_predictions and the maskable tokens
 *   positions    uniform among all except [CLS] and [SEP]; with whole_word, whole words in random
 *                order while they fit, never more than the number
 *   replacement  80 % [MASK], 10 % a uniform non-special id, 10 % unchanged
 *
 * Source: Devlin et al. 2018, arXiv:1810.04805.
 */
#ifndef SR_BATCH_MASK_H
#define SR_BATCH_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/text/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_MAX_SPECIALS = 16 };

typedef struct sr_masker {
    uint64_t seed;
    double prob;             /* 0.15 */
    int32_t max_predictions; /* 20 at 128 tokens, 76 to 80 at 512 */
    int32_t vocabulary;      /* V */
    int32_t mask_id, cls_id, sep_id;
    int32_t specials[SR_MAX_SPECIALS]; /* ascending; never drawn as a replacement */
    int32_t special_count;
    bool whole_word;
    const uint8_t *continues; /* (V) 1 for ## tokens; borrowed; needed by whole_word */
} sr_masker;

/* Sets up a masker for a data set's vocabulary, except prob, max_predictions, whole_word and seed.
 * `continues` is new memory, freed by sr_free(). */
sr_status sr_masker_for(sr_masker *m, uint8_t **continues, const sr_vocab *v);

/* SR_EINVAL, with the reason, for an invalid masker: probability outside (0, 1], ids outside the
 * vocabulary, specials not ascending, no non-special ids, whole_word without `continues`. */
sr_status sr_masker_check(const sr_masker *m);

/* The maximum number of masked positions in a sequence of `len` tokens. */
int32_t sr_mask_limit(const sr_masker *m, int32_t len);

/* Masks a sequence in place.
 *
 *   positions, labels  (sr_mask_limit()) ascending positions from 0, and the original ids
 *   count              their number; 0 if nothing can be masked
 *   ids                (len) changed
 *   scratch            (len) int32, contents irrelevant
 */
void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  uint32_t uid, uint32_t epoch, const sr_masker *m, int32_t *scratch);

#ifdef __cplusplus
}
#endif
#endif
