/* wordpiece.h - the fast path of BERT's tokenizer: the ids of Hugging Face's
 * BertWordPieceTokenizer.
 *
 * Control characters are dropped, white space and punctuation separate words, and every CJK
 * character is a word; lower-casing also strips accents (NFD, without marks).  A word is split
 * greedily into the longest tokens of the vocabulary; a word that cannot be split, or has more than
 * 100 code points, is [UNK].  Invalid UTF-8 is read as U+FFFD, which is dropped like a control
 * character, and counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/tokenizer/tokenizer.h"

SR_BEGIN_C

typedef struct sr_wordpiece {
    sr_vocab *vocab;
    sr_words_opts words;
    bool specials; /* [MASK] and the like, written exactly, become special tokens; false: text */
    int32_t unknown;
    int32_t punct[128]; /* the id of each ASCII punctuation mark */
    uint64_t serial;    /* of the tokenizer, unique in the process */
} sr_wordpiece;

/* Retains `vocab`, which sr_vocab_release() gives back. */
void sr_wordpiece_init(sr_wordpiece *w, sr_vocab *vocab, const sr_tokenizer_opts *opts,
                       uint64_t serial);

/* sr_tokenize() */
sr_status sr_wordpiece_tokenize(sr_tokens *tokens, const sr_wordpiece *w, const void *bytes,
                                size_t size);

SR_END_C
