/* pattern.h - what pre-tokenizers and normalizers look for: a string, a known pattern, or another.
 *
 * The patterns of GPT-2, cl100k, Llama 3 and Qwen 2 are programs; others are run by PCRE2, after a
 * translation from the syntax of Oniguruma, which Hugging Face uses.  What would mean something
 * else there, or is not known, is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/json_at.h"

SR_BEGIN_C

typedef struct sr_pattern sr_pattern;

/* The end of the piece that begins at `at` < size; every text is a sequence of pieces. */
typedef size_t (*sr_pattern_scan)(const uint8_t *bytes, size_t at, size_t size);

/* Reads {"String": ..} or {"Regex": ..}, or a string, which is a string. */
sr_status sr_pattern_read(sr_pattern **out, const sr_json *at);

/* The pattern of ByteLevel, GPT-2's. */
sr_status sr_pattern_gpt2(sr_pattern **out);

void sr_pattern_free(sr_pattern *p); /* may be NULL */

/* The program of a known pattern, NULL if it is none. */
sr_pattern_scan sr_pattern_program(const sr_pattern *p);

/* The byte of a pattern of one byte, -1 if it is another. */
int sr_pattern_byte(const sr_pattern *p);

/* Whether it can match nothing. */
bool sr_pattern_matches_empty(const sr_pattern *p);

typedef struct sr_matcher {
    void *data; /* of PCRE2; freed by sr_matcher_free() */
} sr_matcher;
void sr_matcher_free(sr_matcher *m);

/* The next match at or after `from`: [*first, *last); *found is false if there is none.  `before`
 * is the end of the match before it, (size_t)-1 if there is none: an empty match there does not
 * count.
 *
 * Errors: SR_EDATA  a pattern of PCRE2 needs too many steps
 *         SR_ENOMEM */
sr_status sr_pattern_next(const sr_pattern *p, sr_matcher *m, const uint8_t *bytes, size_t size,
                          size_t from, size_t before, size_t *first, size_t *last, bool *found);

SR_END_C
