/* count.h - counts the words of a text. */
#pragma once

#include <stdint.h>

#include "core/base/status.h"
#include "core/base/thread.h"
#include "core/text/source.h"
#include "core/tokenizer/pieces.h"
#include "core/tokenizer/words.h"

SR_BEGIN_C

/* Zero-initialised: empty. */
typedef struct sr_word_counts {
    sr_pieces words; /* normalised, in the order of the text */
    int64_t *counts;
    size_t room;
    uint64_t total;     /* words read, without omitted ones */
    uint64_t too_long;  /* words of more than SR_WORD_CHARS code points, omitted */
    uint64_t forgotten; /* occurrences of words that were dropped to stay below the limit */
} sr_word_counts;

/* Adds the words of all of `source`; without `opts` they are the pieces of the byte level (GPT-2's
 * pattern), line by line with the line feed, of any length.  If more than `limit` are distinct, the
 * rarest are dropped until three quarters of the limit remain; this happens at fixed positions in
 * the text, so the result is the same on any number of threads.
 *
 * Errors: those of sr_source_line(); SR_ENOMEM; SR_ESTOP.  The counts may be incomplete then. */
sr_status sr_word_counts_add(sr_word_counts *out, sr_source *source, const sr_words_opts *opts,
                             int64_t limit, sr_threads *threads);

void sr_word_counts_free(sr_word_counts *c);

SR_END_C
