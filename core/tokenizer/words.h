/* words.h - splits a span of text into normalised words: BERT's normaliser and pre-tokeniser.
 *
 * The steps and their order are those of Hugging Face: drop control characters; isolate CJK
 * characters; when stripping accents, NFD and drop marks; lower-case; then split at white space and
 * isolate punctuation.  Every code point of a word has its position in the text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

SR_BEGIN_C

enum { SR_WORD_CHARS = 100 }; /* longer words are [UNK] */

/* [first, last) in bytes and in code points. */
typedef struct sr_text_span {
    uint32_t byte_first, byte_last, char_first, char_last;
} sr_text_span;

typedef struct sr_word {
    size_t chars; /* code points; only the first SR_WORD_CHARS are stored below */
    size_t size;  /* bytes of UTF-8 */
    uint8_t bytes[SR_WORD_CHARS * 4];
    uint16_t at[SR_WORD_CHARS + 1];    /* where each code point begins in bytes; at[chars] = size */
    sr_text_span spans[SR_WORD_CHARS]; /* position of each in the text */
    sr_text_span whole;                /* from the start of the first to the end of the last */
} sr_word;

typedef struct sr_words_opts {
    bool lowercase, strip_accents;
} sr_words_opts;

/* Receives a word; a failure ends sr_words() and is returned by it. */
typedef sr_status (*sr_word_sink)(void *context, const sr_word *word);

/* The position of sr_words(); the caller sets it to the start of the span, and reads it afterwards.
 */
typedef struct sr_words_at {
    uint32_t byte, chars; /* offsets of spans; they wrap at 2^32 */
    uint64_t invalid;     /* invalid UTF-8 sequences, each read as U+FFFD and dropped */
} sr_words_at;

/* Calls `sink` for each word of a span. */
sr_status sr_words(sr_words_at *at, const uint8_t *bytes, size_t size, const sr_words_opts *opts,
                   sr_word_sink sink, void *context);

SR_END_C
