/* chars.h - BERT's normalisation of a code point, compatible with Hugging Face.
 *
 * utf8proc supplies the Unicode tables; hf_unicode.inc lists where the tables of Hugging Face,
 * which are from several Unicode versions, differ.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

typedef enum sr_char_kind {
    SR_CHAR_LETTER, /* part of a word, including digits and symbols */
    SR_CHAR_SPACE,  /* White_Space */
    SR_CHAR_PUNCT,  /* ASCII punctuation, including symbols, and Unicode P*: a word of its own */
    SR_CHAR_CONTROL /* Cc, Cf, Co, zero and U+FFFD, except tab, LF and CR: dropped */
} sr_char_kind;

/* The kind of a code point in a text. */
sr_char_kind sr_char_kind_of(int32_t cp);

/* True for a CJK ideograph, which is a word of its own.  The ranges are those of Hugging Face,
 * which lack U+2B820..U+2B91F of Google's. */
bool sr_char_is_cjk(int32_t cp);

/* The decomposition of one code point, canonical (NFD) or for compatibility (NFKD); returns the
 * number of parts.  The caller sorts runs of parts with a combining class other than 0 into
 * canonical order. */
enum { SR_CHAR_PARTS = 20 };
typedef struct sr_char_part {
    int32_t cp;
    uint8_t combining; /* combining class; 0: a starter */
    bool mark;         /* Mn: an accent */
} sr_char_part;
int sr_char_decompose(sr_char_part out[SR_CHAR_PARTS], int32_t cp, bool compat);

/* The code point that two compose to (NFC), -1 if there is none. */
int32_t sr_char_compose(int32_t first, int32_t second);

/* Lower case of one code point without context; returns 1, or 2 for U+0130. */
int sr_char_lower(int32_t out[2], int32_t cp);

/* For graphemes: a control, which ends one on both sides; a sign that joins the next; an emoji. */
bool sr_char_is_break(int32_t cp);
bool sr_char_is_prepend(int32_t cp);
bool sr_char_is_pictographic(int32_t cp);

/* For the sentence splitter: Lu or Lt, and Nd. */
bool sr_char_is_capital(int32_t cp);
bool sr_char_is_digit(int32_t cp);
bool sr_char_is_alphabetic(int32_t cp); /* L* */

SR_END_C
