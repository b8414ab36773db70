/* train.h - a WordPiece vocabulary from text.
 *
 * Words are counted, written as characters (the first plain, the others with ##), and the pair of
 * neighbours that occurs most often becomes a token, again and again, until the vocabulary is full
 * or no pair occurs `min_frequency` times.  This is what Hugging Face's BertWordPieceTrainer does.
 * Ties go to the pair that was made first (lower ids), so one text gives one vocabulary, on any
 * number of threads.
 */
#ifndef SR_TEXT_TRAIN_H
#define SR_TEXT_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/text/vocab.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_vocab_train_opts {
    int32_t size;          /* tokens in all, at most; specials and alphabet included */
    int64_t min_frequency; /* of a pair; 0: 2 */
    int32_t alphabet;      /* the most frequent characters kept; 0: 1000 */
    bool lowercase;
    bool keep_accents;
    int64_t word_limit; /* distinct words kept while counting; 0: 2^23.  Beyond it the rarest are
                         * forgotten, at fixed places in the text, and counted */
} sr_vocab_train_opts;

typedef struct sr_vocab_train_counts {
    uint64_t words, distinct, forgotten, merges;
    uint64_t too_long;     /* words of more than 100 code points, left out */
    uint64_t out_of_reach; /* words left out since a character is not in the alphabet */
} sr_vocab_train_counts;

/* Reads all of `source` and makes a vocabulary: the specials, the alphabet in the order of code
 * points, the merges in the order they were made.  A NULL `threads` is the caller's thread alone; a
 * NULL `counts` is allowed.
 *
 * Errors: SR_EINVAL  size is not in 6 .. SR_VOCAB_LIMIT
 *         SR_EDATA   the text has no word; the alphabet alone is larger than `size` (the message
 *                    says by how much)
 *         and those of sr_source_line(). */
sr_status sr_vocab_train(sr_vocab **out, sr_source *source, const sr_vocab_train_opts *opts,
                         sr_threads *threads, sr_vocab_train_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
