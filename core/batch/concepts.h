/* concepts.h - words and phrases that are masked as a whole, each from a stage of training on.
 *
 * A concept has one or more forms, the sequences of tokens that a tokenizer writes it with.  Forms
 * are sorted, so that a text is matched as in a trie: the longest form that begins at a token and
 * ends where a word does is the one found there.  Where places show what continues a word,
 * as a tokenizer cuts them, its punctuation is cut off too: the word of "(dog)," is "dog".
 *
 * Source: Lee et al. 2022, "Efficient Pre-training of Masked Language Model via Concept-based
 * Curriculum Masking", EMNLP.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/dataset.h"

SR_BEGIN_C

enum { SR_CONCEPT_STAGES = 65535 };

typedef struct sr_form {
    const int32_t *ids; /* (len) */
    int32_t len, stage; /* stages count from 1 */
    int64_t number;     /* of the form as it was given, from 0 */
} sr_form;

typedef struct sr_concepts {
    int32_t vocabulary; /* V */
    int64_t count;
    sr_form *form;  /* (count) sorted by tokens, then by stage */
    int64_t *first; /* (V + 1) the first form that begins with an id, or with a larger one */
    uint8_t *marks; /* (V) whether a token begins, or ends, with punctuation */
    int32_t *ids;
} sr_concepts;

/* Makes a table, freed by sr_concepts_free().
 *
 *   ids    the tokens of all forms, one form after the other
 *   len    (n) tokens of each, at least 1
 *   stage  (n) 1..SR_CONCEPT_STAGES
 *   t      whose ids these are; NULL: `vocabulary` ids without punctuation
 *
 * Errors: SR_EINVAL  a length, a stage or an id is out of range; SR_ENOMEM */
sr_status sr_concepts_new(sr_concepts **out, const int32_t *ids, const int32_t *len,
                          const int32_t *stage, int64_t n, const sr_tokenizer *t,
                          int32_t vocabulary);
void sr_concepts_free(sr_concepts *c); /* may be NULL */

/* Tokens, and which of them continue a word: by their places, or their ids. */
typedef struct sr_wording {
    const int32_t *ids;       /* (len) */
    const uint8_t *goes_on;   /* (len); NULL: by id */
    const uint8_t *continues; /* (V) */
    int32_t len;
} sr_wording;

static inline bool sr_goes_on(const sr_wording *w, int32_t i) {
    return w->goes_on != NULL ? w->goes_on[i] : w->continues[w->ids[i]];
}

/* Tokens of the longest form up to a stage that begins at token i, 0 if there is none; *form gets
 * its number, unless it is NULL.  O(tokens of the longest form x log count). */
int32_t sr_concepts_at(int64_t *form, const sr_concepts *c, const sr_wording *w, int32_t i,
                       int32_t stage);

/* times[number] += how often each form is found in a part of a data set, whatever its stage.
 *
 * Errors: SR_EINVAL  unknown which tokens start a word; those of sr_dataset_ids() */
sr_status sr_concepts_count(int64_t *times, const sr_concepts *c, const sr_dataset *d,
                            sr_data_part part);

/* How a loader masks concepts; zero-initialised: not at all. */
typedef struct sr_concept_masks {
    const sr_concepts *table; /* borrowed */
    double share;             /* maximum fraction of masked tokens in concepts */
    int64_t *from;            /* (stages) updates, from 1, with which the stages begin; ascending */
    int32_t stages;
} sr_concept_masks;

/* SR_EINVAL, with the reason: a share outside [0, 1], updates that do not ascend, another
 * vocabulary. */
sr_status sr_concept_masks_check(const sr_concept_masks *m, int32_t vocabulary);

/* Stages that have begun with this update, from 1. */
int32_t sr_concept_masks_at(const sr_concept_masks *m, int64_t update);

sr_status sr_concept_masks_copy(sr_concept_masks *out, const sr_concept_masks *m);
void sr_concept_masks_free(sr_concept_masks *m); /* resets it to none */

SR_END_C
