/* wordpiece.h - tokenizes text, with the same ids as Hugging Face's BertWordPieceTokenizer.
 *
 * Control characters are dropped, white space and punctuation separate words, and every CJK
 * character is a word; lower-casing also strips accents (NFD, without marks).  A word is split
 * greedily into the longest tokens of the vocabulary; a word that cannot be split, or has more than
 * 100 code points, is [UNK].  Invalid UTF-8 is read as U+FFFD, which is dropped like a control
 * character, and counted.
 *
 * A tokenizer is immutable and may be shared between threads.  Results are in an sr_tokens, one per
 * thread: the ids, and a cache of known words, which makes it fast.
 *
 *     sr_tokens tokens = {0};
 *     sr_tokenize(&tokens, tokenizer, line, size);    appends to tokens.ids[0 .. tokens.count)
 *     tokens.count = 0;                               the next line overwrites
 *     sr_tokens_free(&tokens);
 */
#ifndef SR_TEXT_WORDPIECE_H
#define SR_TEXT_WORDPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/text/vocab.h"
#include "core/text/words.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr_tokenizer sr_tokenizer;

typedef struct sr_tokenizer_opts {
    bool lowercase;
    bool keep_accents; /* with lower-casing: keep accents (Hugging Face strips them) */
    bool specials; /* [MASK] and the like, written exactly, become special tokens; false: text */
} sr_tokenizer_opts;

/* Creates a tokenizer, which retains `vocab`. */
sr_status sr_tokenizer_new(sr_tokenizer **out, sr_vocab *vocab, const sr_tokenizer_opts *opts);
sr_tokenizer *sr_tokenizer_retain(sr_tokenizer *t);
void sr_tokenizer_release(sr_tokenizer *t); /* may be NULL */
sr_vocab *sr_tokenizer_vocab(const sr_tokenizer *t);

typedef struct sr_word_cache sr_word_cache;

/* Zero-initialised: empty. */
typedef struct sr_tokens {
    int32_t *ids;
    sr_text_span *spans; /* position of each token in the text; only with want_spans */
    size_t count, room;
    bool want_spans;      /* set by the caller before the first call */
    uint64_t invalid;     /* invalid UTF-8 sequences so far */
    uint64_t unknown;     /* unknown words so far, without [UNK] written in the text */
    sr_word_cache *cache; /* private */
} sr_tokens;

/* Appends the ids of a span of text.  Spans are independent: words do not continue across spans.  A
 * span may be split at ASCII white space without changing the ids.
 *
 * Errors: SR_ENOMEM  tokens->count is unchanged
 *         SR_EINVAL  want_spans and a span of 2^31 bytes or more
 * Cost:   a few nanoseconds per cached word.
 */
sr_status sr_tokenize(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size);

void sr_tokens_free(sr_tokens *tokens);

#ifdef __cplusplus
}
#endif
#endif
