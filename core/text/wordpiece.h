/* wordpiece.h - text to token ids, as Hugging Face's BertWordPieceTokenizer gives them.
 *
 * Control characters go, white space and punctuation split, CJK characters stand alone; when
 * lower-casing, accents go too (NFD, marks dropped).  A word is then cut greedily into the longest
 * pieces of the vocabulary; a word that cannot be cut, or that has more than 100 code points, is
 * [UNK].  Invalid UTF-8 reads as U+FFFD, which is dropped like a control character, and counted.
 *
 * A tokenizer never changes once it is made and may be shared between threads.  What a call writes
 * is in an sr_tokens, one for each thread: the ids, and a cache of the words met before, which is
 * where the speed comes from.
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
    bool keep_accents; /* lower-case only: leave accents alone (Hugging Face strips them) */
    bool specials;     /* [MASK] and the like, exactly so written, become their ids; false: text */
} sr_tokenizer_opts;

/* Makes a tokenizer that holds on to `vocab`. */
sr_status sr_tokenizer_new(sr_tokenizer **out, sr_vocab *vocab, const sr_tokenizer_opts *opts);
sr_tokenizer *sr_tokenizer_retain(sr_tokenizer *t);
void sr_tokenizer_release(sr_tokenizer *t); /* NULL is allowed */
sr_vocab *sr_tokenizer_vocab(const sr_tokenizer *t);

typedef struct sr_word_cache sr_word_cache;

/* All zero is an empty one. */
typedef struct sr_tokens {
    int32_t *ids;
    sr_text_span *spans; /* where each token stands in the span given; only with want_spans */
    size_t count, room;
    bool want_spans;      /* set by the caller before the first call */
    uint64_t invalid;     /* invalid UTF-8 sequences met so far */
    uint64_t unknown;     /* [UNK] given so far, those written in the text not counted */
    sr_word_cache *cache; /* private */
} sr_tokens;

/* Appends the ids of a span of text.  Spans are independent: a word does not go on in the next.
 * A span may be cut at ASCII white space without changing the ids.
 *
 * Errors: SR_ENOMEM  tokens->count stands as it was
 *         SR_EINVAL  want_spans and a span of 2^31 bytes or more
 * Cost:   a few nanoseconds a word that the cache knows.
 */
sr_status sr_tokenize(sr_tokens *tokens, const sr_tokenizer *t, const void *bytes, size_t size);

void sr_tokens_free(sr_tokens *tokens);

#ifdef __cplusplus
}
#endif
#endif
