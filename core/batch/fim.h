/* fim.h - fill-in-the-middle: the text of a sequence in another order, for causal models.
 *
 * A text is cut at two random places into a prefix, a middle and a suffix, and becomes
 *
 *     PSM   PREFIX prefix SUFFIX suffix MIDDLE middle
 *     SPM   PREFIX SUFFIX suffix MIDDLE prefix middle
 *
 * so that a model that reads from left to right learns to fill a gap.  The number of tokens stays:
 * the text loses as many at its end as the three special tokens take.  A pure function of (seed,
 * uid, epoch) and the text, independent of packs, batches and threads.
 *
 * Source: Bavarian et al. 2022, arXiv:2207.14255; rearranged here is the text of one sequence,
 * which never spans documents (their context level).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

typedef struct sr_fim {
    double rate;     /* fraction of the sequences; 0: none */
    double spm;      /* of these, the fraction in the order SPM */
    bool characters; /* cut between characters, and tokenize the parts again; else between tokens */
    int32_t prefix, suffix, middle; /* ids of the special tokens */
} sr_fim;

/* SR_EINVAL, with the reason: fractions outside [0, 1], ids outside the vocabulary or the same. */
sr_status sr_fim_check(const sr_fim *f, const sr_tokenizer *t);

/* Rearranges a text in place, or leaves it as it is.
 *
 *   ids      (len) without the special tokens around the text
 *   scratch  (len) contents irrelevant
 *
 * Errors: SR_ENOMEM, with `characters` those of sr_tokenize() */
sr_status sr_fim_apply(const sr_fim *f, int32_t *ids, int32_t len, const sr_tokenizer *t,
                       uint64_t seed, uint32_t uid, uint32_t epoch, int32_t *scratch);

SR_END_C
