/* sentence.h - splits a stream of lines into documents and sentences.
 *
 * A blank line or the end of a file ends a document; of JSONL, the end of a record.  In prose,
 * wrapped lines are joined by a space, and a sentence ends after . ! or ? with the closing quotes
 * or brackets that follow it and white space, before a capital, a digit or an opening quote, unless
 * the word before a full stop is a listed abbreviation (sentence.c) or an initial.  In
 * SR_TEXT_LINES every line is a sentence; in SR_TEXT_DOCUMENTS every line is a document of prose.
 *
 *     sr_sentence s;
 *     do {
 *         SR_TRY(sr_sentences_next(sentences, &s));
 *         ... s.size bytes of the next sentence, or the end of a document
 *     } while (s.event != SR_TEXT_END);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/text/source.h"

SR_BEGIN_C

typedef enum sr_text_format { SR_TEXT_PROSE, SR_TEXT_LINES, SR_TEXT_DOCUMENTS } sr_text_format;

typedef enum sr_text_event {
    SR_TEXT_SENTENCE,
    SR_TEXT_DOCUMENT, /* end of a document, which had at least one sentence */
    SR_TEXT_END       /* end of all sources; repeated if called again */
} sr_text_event;

typedef struct sr_sentence {
    sr_text_event event;
    const uint8_t *bytes; /* of a sentence, never empty, without surrounding white space; valid
                           * until the next call.  Invalid UTF-8 is left to the tokenizer. */
    size_t size;
} sr_sentence;

enum { SR_SENTENCE_LIMIT = 64 << 10 };

typedef struct sr_sentences_opts {
    sr_text_format format;
    size_t limit; /* bytes per sentence, at least 16; longer ones are split at white space and
                   * counted.  0: SR_SENTENCE_LIMIT */
} sr_sentences_opts;

typedef struct sr_sentences sr_sentences;

/* Reads from `source`, which must outlive it and is closed by its owner. */
sr_status sr_sentences_new(sr_sentences **out, sr_source *source, const sr_sentences_opts *opts);
void sr_sentences_free(sr_sentences *s); /* may be NULL */

/* The next sentence or end of document.  Errors are those of sr_source_line(). */
sr_status sr_sentences_next(sr_sentences *s, sr_sentence *out);

typedef struct sr_sentences_counts {
    uint64_t documents, sentences, long_cut;
} sr_sentences_counts;

sr_sentences_counts sr_sentences_count(const sr_sentences *s);

SR_END_C
