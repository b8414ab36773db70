/* mask.h - which tokens of a sequence are hidden from the model, and behind what.
 *
 * A pure function of (seed, uid, epoch) and of the sequence itself: masks do not depend on packs,
 * batches, threads or what was drawn before, and change with the epoch.
 *
 *   how many   max(1, round(prob len)), at most max_predictions, at most what may be masked
 *   where      uniformly among all positions but [CLS] and [SEP]; with whole_word, whole words in
 *              random order while they fit, never more than the number
 *   with what  80 % [MASK], 10 % a uniform id that is not special, 10 % the token itself
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
    const uint8_t *continues; /* (V) 1 for a ## piece; borrowed; whole_word needs it */
} sr_masker;

/* A masker for a data set's vocabulary: fills all but prob, max_predictions, whole_word and seed.
 * `continues` is new memory, freed by sr_free(). */
sr_status sr_masker_for(sr_masker *m, uint8_t **continues, const sr_vocab *v);

/* SR_EINVAL with the reason when a masker cannot work: probability outside (0, 1], ids outside the
 * vocabulary, specials not ascending, nothing left to draw, whole_word without `continues`. */
sr_status sr_masker_check(const sr_masker *m);

/* The largest number of positions that a sequence of `len` tokens may have masked. */
int32_t sr_mask_limit(const sr_masker *m, int32_t len);

/* Masks a sequence in place.
 *
 *   positions, labels  (sr_mask_limit()) ascending positions from 0, and what stood there
 *   count              how many; 0 when nothing may be masked
 *   ids                (len) changed
 *   scratch            (len) int32, contents irrelevant
 */
void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  uint32_t uid, uint32_t epoch, const sr_masker *m, int32_t *scratch);

#ifdef __cplusplus
}
#endif
#endif
