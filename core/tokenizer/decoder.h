/* decoder.h - the decoder of a tokenizer.json: tokens to text, step by step, as `tokenizers` does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/tokenizer/pattern.h"

SR_BEGIN_C

enum { SR_DECODER_STEPS = 16 };

typedef enum sr_decoder_kind {
    SR_DECODE_BYTE_LEVEL,    /* GPT-2's characters for bytes */
    SR_DECODE_WORDPIECE,     /* a space before tokens without `text`, their prefix */
    SR_DECODE_METASPACE,     /* `text` is a space, but not in the first token if `first` */
    SR_DECODE_BPE,           /* `text`, the suffix of the last token of a word, is a space */
    SR_DECODE_BYTE_FALLBACK, /* <0x41> */
    SR_DECODE_FUSE,          /* all tokens become one */
    SR_DECODE_STRIP,         /* `text`, a character, at most `start` and `stop` times at the ends */
    SR_DECODE_REPLACE        /* what `pattern` matches by `text` */
} sr_decoder_kind;

typedef struct sr_decoder_step {
    sr_decoder_kind kind;
    char *text;
    size_t size;
    sr_pattern *pattern;
    int64_t start, stop;
    bool cleanup, first;
} sr_decoder_step;

typedef struct sr_decoder {
    sr_decoder_step steps[SR_DECODER_STEPS];
    int count;
    bool given; /* without a decoder, tokens are a space apart */
} sr_decoder;

/* Reads a decoder; absent: none.  SR_EDATA for what is not supported. */
sr_status sr_decoder_read(sr_decoder *d, const sr_json *at);
void sr_decoder_free(sr_decoder *d); /* all zero is allowed */

/* Tokens side by side: token i is text[ends[i - 1] .. ends[i]).  Zero-initialised: empty. */
typedef struct sr_decoded {
    char *text;
    size_t *ends;
    size_t size, count, text_room, ends_room;
} sr_decoded;
sr_status sr_decoded_add(sr_decoded *d, const char *text, size_t size); /* another token */
void sr_decoded_free(sr_decoded *d);

/* Runs the steps; the text is `tokens` without the bounds. */
sr_status sr_decoder_run(const sr_decoder *d, sr_decoded *tokens);

SR_END_C
