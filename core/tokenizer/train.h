/* train.h - trains a WordPiece vocabulary on text.
 *
 * Words are counted and split into characters (the first plain, the others with ##).  The most
 * frequent pair of adjacent symbols then becomes a token, repeatedly, until the vocabulary is full
 * or no pair occurs `min_frequency` times, like Hugging Face's BertWordPieceTrainer.  Ties go to
 * the pair with lower ids, so the vocabulary is a function of the text, on any number of threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/tokenizer/vocab.h"

SR_BEGIN_C

typedef struct sr_vocab_train_opts {
    int32_t size;          /* maximum number of tokens, including specials and alphabet */
    int64_t min_frequency; /* minimum count of a pair; 0: 2 */
    int32_t alphabet;      /* number of most frequent characters to keep; 0: 1000 */
    bool lowercase;
    bool keep_accents;
    int64_t word_limit; /* distinct words kept while counting; 0: 2^23.  Above it, the rarest are
                         * dropped, at fixed positions in the text, and counted */
} sr_vocab_train_opts;

typedef struct sr_vocab_train_counts {
    uint64_t words, distinct, forgotten, merges;
    uint64_t too_long;     /* words of more than 100 code points, omitted */
    uint64_t out_of_reach; /* words omitted because of a character outside the alphabet */
} sr_vocab_train_counts;

/* Reads all of `source` and builds a vocabulary: the specials, the alphabet sorted by code point,
 * the merges in order.  If `threads` is NULL, only the caller's thread is used; `counts` may be
 * NULL.
 *
 * Errors: SR_EINVAL  size is not in 6 .. SR_VOCAB_LIMIT
 *         SR_EDATA   the text has no words; specials and alphabet alone exceed `size`
 *         and those of sr_source_line(). */
sr_status sr_vocab_train(sr_vocab **out, sr_source *source, const sr_vocab_train_opts *opts,
                         sr_threads *threads, sr_vocab_train_counts *counts);

SR_END_C
