/* pattern_translate.h - Oniguruma's syntax to PCRE2's; internal to pattern.c. */
#pragma once

#include <stddef.h>

#include "core/tokenizer/json_at.h"

SR_BEGIN_C

/* Translates a pattern into *out (freed by sr_free()), with classes as ranges of code points, which
 * do not depend on the Unicode version of PCRE2.  What means something else in PCRE2 or is not
 * known is SR_EDATA, with its place. */
sr_status sr_pattern_translate(char **out, size_t *size, const sr_json *at, const char *regex,
                               size_t length);

SR_END_C
