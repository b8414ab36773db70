/* charsmap.h - SentencePiece's precompiled normalization: a trie of strings and what replaces them.
 *
 * The format is a double array (darts-clone) with its size before it, and the replacements, each
 * followed by a zero byte.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"
#include "core/unicode/text_run.h"

SR_BEGIN_C

typedef struct sr_charsmap sr_charsmap;

/* Reads the base64 text at `at`.  Errors: SR_EDATA, when it is not such a map. */
sr_status sr_charsmap_read(sr_charsmap **out, const sr_json *at);
void sr_charsmap_free(sr_charsmap *m); /* may be NULL */

/* Appends the normalized text to `out`, unless *changed is false: then it is as it was; `c` is
 * scratch. */
sr_status sr_charsmap_apply(sr_run *out, const sr_run *in, const sr_charsmap *m, sr_changes *c,
                            bool *changed);

SR_END_C
