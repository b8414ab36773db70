/* pretokenizer.h - the pre-tokenizer of a tokenizer.json: a list of steps that cut a text into
 * pieces.
 *
 * ByteLevel writes each byte as a character in Hugging Face's library; here the bytes stay, and the
 * vocabulary is read as bytes instead (byte_level.h), so ByteLevel has to be the last step.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/pattern.h"
#include "core/unicode/text_run.h"

SR_BEGIN_C

typedef enum sr_pre_kind {
    SR_PRE_BERT,
    SR_PRE_WHITESPACE,
    SR_PRE_WHITESPACE_SPLIT,
    SR_PRE_BYTE_LEVEL,
    SR_PRE_SPLIT,
    SR_PRE_METASPACE,
    SR_PRE_DIGITS,
    SR_PRE_PUNCTUATION
} sr_pre_kind;

typedef enum sr_split_behavior {
    SR_SPLIT_REMOVED,
    SR_SPLIT_ISOLATED,
    SR_SPLIT_PREVIOUS,
    SR_SPLIT_NEXT,
    SR_SPLIT_CONTIGUOUS
} sr_split_behavior;

enum { SR_PRE_ALWAYS, SR_PRE_FIRST, SR_PRE_NEVER }; /* where Metaspace prepends */
enum { SR_PRE_STEPS = 16 };

typedef struct sr_pre_step {
    sr_pre_kind kind;
    sr_pattern *pattern; /* Split; ByteLevel with use_regex */
    sr_split_behavior behavior;
    bool invert;
    bool prefix;     /* ByteLevel */
    bool individual; /* Digits */
    bool split;      /* Metaspace */
    int scheme;
    uint8_t mark[4]; /* the replacement of a space */
    int mark_size;
} sr_pre_step;

typedef struct sr_pretokenizer {
    sr_pre_step steps[SR_PRE_STEPS];
    int count;
    bool bytes;           /* ByteLevel is the last step */
    bool needs_places;    /* pieces depend on where the text comes from */
    sr_pattern_scan scan; /* all steps are one known pattern, and pieces keep the text; else NULL */
} sr_pretokenizer;

sr_status sr_pretokenizer_read(sr_pretokenizer *p, const sr_json *at);
void sr_pretokenizer_free(sr_pretokenizer *p);

/* Whether a step is Metaspace. */
bool sr_pretokenizer_marks(const sr_pretokenizer *p);

/* A piece of a text; `match` while splitting only. */
typedef struct sr_piece {
    size_t first, last;
    bool match;
} sr_piece;

typedef struct sr_piece_list {
    sr_piece *list;
    size_t count, room;
} sr_piece_list;

/* What pre-tokenizing needs, zero-initialised, and where its result is: pieces of `text`. */
typedef struct sr_pre_work {
    sr_run text, other;
    sr_piece_list pieces, more, found;
    sr_matcher matcher;
} sr_pre_work;
void sr_pre_work_free(sr_pre_work *w);

/* Cuts w->text.  `spaced` text comes after a space: one is put before it where the tokenizer does
 * not do so itself. */
sr_status sr_pretokenize(sr_pre_work *w, const sr_pretokenizer *p, bool spaced);

SR_END_C
