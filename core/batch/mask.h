/* mask.h - selects and replaces tokens of a sequence for masked language modelling.
 *
 * A pure function of (seed, uid, epoch) and the sequence: masks do not depend on packs, batches,
 * threads or earlier draws, and change every epoch.
 *
 *   number       max(1, round(prob len)), at most max_predictions and the maskable tokens
 *   positions    uniform among all except those of the frame, [CLS] and [SEP]; with whole_word,
 *                whole words in random order while they fit, never more than the number
 *   replacement  80 % [MASK], 10 % a uniform non-special id, 10 % unchanged
 *
 * With concepts (concepts.h), those of the stages so far come first: whole, in random order, while
 * they fit into their share of the number, and all tokens of one are replaced alike.  The rest of
 * the number are other tokens or words, as above; without a stage, or with share 0, all are.
 *
 * Source: Devlin et al. 2018, arXiv:1810.04805; concepts: see concepts.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/batch/concepts.h"
#include "core/data/dataset.h"

SR_BEGIN_C

enum { SR_MASK_FRAME = 5 * SR_FRAME_LIMIT }; /* ids of two frames at most */

typedef struct sr_masker {
    uint64_t seed;
    double prob;             /* 0.15 */
    int32_t max_predictions; /* 20 at 128 tokens, 76 to 80 at 512 */
    int32_t vocabulary;      /* V */
    int32_t mask_id;
    int32_t frame[SR_MASK_FRAME], frame_count; /* ids never masked; frame[0], [1]: -1 if none */
    int32_t *specials, special_count;          /* ascending; never drawn as a replacement */
    bool whole_word;
    bool by_place;      /* words come from places, see sr_mask_draw(), not from `continues` */
    uint8_t *continues; /* (V) 1 for ## tokens; needed by whole_word and concepts */
    sr_concept_masks concepts;
} sr_masker;

/* Sets up a masker for a data set's tokenizer, except prob, max_predictions, whole_word, seed and
 * concepts. */
sr_status sr_masker_open(sr_masker *m, const sr_dataset *d);
void sr_masker_close(sr_masker *m); /* all zero is allowed */

/* SR_EINVAL, with the reason, for an invalid masker: probability outside (0, 1], ids outside the
 * vocabulary, specials not ascending, no non-special ids, whole_word or concepts without words. */
sr_status sr_masker_check(const sr_masker *m);

/* The maximum number of masked positions in a sequence of `len` tokens. */
int32_t sr_mask_limit(const sr_masker *m, int32_t len);

/* Masks a sequence in place.
 *
 *   positions, labels  (sr_mask_limit()) ascending positions from 0, and the original ids
 *   count              their number; 0 if nothing can be masked
 *   ids                (len) changed
 *   goes_on            (len) 1 for tokens that continue a word; NULL: by m->continues
 *   scratch            (len) int32, contents irrelevant
 */
void sr_mask_draw(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids, int32_t len,
                  const uint8_t *goes_on, uint32_t uid, uint32_t epoch, const sr_masker *m,
                  int32_t *scratch);

/* The same with the concepts of m->concepts up to a stage, which is at least 1.
 *
 *   roles  (len) contents irrelevant
 */
void sr_mask_draw_concepts(int32_t *positions, int32_t *labels, int32_t *count, int32_t *ids,
                           int32_t len, const uint8_t *goes_on, uint32_t uid, uint32_t epoch,
                           const sr_masker *m, int32_t stage, int32_t *scratch, uint8_t *roles);

SR_END_C
