/* words.h - a span of text cut into normalised words: BERT's normaliser and pre-tokeniser.
 *
 * The order of things is Hugging Face's: control characters go; CJK characters stand alone; when
 * stripping accents, NFD and marks dropped; lower case; then white space splits and punctuation
 * stands alone.  Every code point of a word remembers where it came from.
 */
#ifndef SR_TEXT_WORDS_H
#define SR_TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SR_WORD_CHARS = 100 }; /* a longer word is [UNK] to every BERT */

/* [first, last) in bytes and in code points. */
typedef struct sr_text_span {
    uint32_t byte_first, byte_last, char_first, char_last;
} sr_text_span;

typedef struct sr_word {
    size_t chars; /* code points; of more than SR_WORD_CHARS only the first are kept below */
    size_t size;  /* bytes of UTF-8 */
    uint8_t bytes[SR_WORD_CHARS * 4];
    uint16_t at[SR_WORD_CHARS + 1];    /* where each code point begins in bytes; at[chars] = size */
    sr_text_span spans[SR_WORD_CHARS]; /* where each came from */
    sr_text_span whole;                /* first of the first, last of the last */
} sr_word;

typedef struct sr_words_opts {
    bool lowercase, strip_accents;
} sr_words_opts;

/* Takes a word; a failure ends the walk and is returned from it. */
typedef sr_status (*sr_word_sink)(void *context, const sr_word *word);

/* Where a walk stands; the caller sets it to where the span begins, and reads it afterwards. */
typedef struct sr_words_at {
    uint32_t byte, chars; /* offsets given to spans; they wrap beyond 2^32 */
    uint64_t invalid;     /* invalid UTF-8 sequences met, each read as U+FFFD and so dropped */
} sr_words_at;

/* Calls `sink` for each word of a span. */
sr_status sr_words(sr_words_at *at, const uint8_t *bytes, size_t size, const sr_words_opts *opts,
                   sr_word_sink sink, void *context);

#ifdef __cplusplus
}
#endif
#endif
