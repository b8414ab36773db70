/* chars.h - what BERT's normalisation makes of a code point, as Hugging Face has it.
 *
 * utf8proc supplies the Unicode tables; hf_unicode.inc lists where Hugging Face's tables, which are
 * of several ages, say otherwise.
 */
#ifndef SR_TEXT_CHARS_H
#define SR_TEXT_CHARS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sr_char_kind {
    SR_CHAR_LETTER, /* anything that is part of a word: digits and symbols too */
    SR_CHAR_SPACE,  /* White_Space */
    SR_CHAR_PUNCT,  /* ASCII punctuation, the symbols among it included, and Unicode P*: one word */
    SR_CHAR_CONTROL /* Cc, Cf, Co, zero and U+FFFD, but no tab, line feed, carriage return: goes */
} sr_char_kind;

/* The kind of a code point as it stands in a text. */
sr_char_kind sr_char_kind_of(int32_t cp);

/* A CJK ideograph, which stands alone.  The ranges are Hugging Face's: they leave out
 * U+2B820..U+2B91F, which Google's have. */
bool sr_char_is_cjk(int32_t cp);

/* The canonical decomposition (NFD) of one code point: returns how many parts are stored.  The
 * caller puts a run of parts with a combining class other than 0 into canonical order. */
enum { SR_CHAR_PARTS = 8 };
typedef struct sr_char_part {
    int32_t cp;
    uint8_t combining; /* the class that orders marks; 0: a starter */
    bool mark;         /* Mn: an accent */
} sr_char_part;
int sr_char_decompose(sr_char_part out[SR_CHAR_PARTS], int32_t cp);

/* Lower case of one code point by itself; returns 1, or 2 for U+0130. */
int sr_char_lower(int32_t out[2], int32_t cp);

/* For the sentence splitter: Lu or Lt, and Nd. */
bool sr_char_is_capital(int32_t cp);
bool sr_char_is_digit(int32_t cp);
bool sr_char_is_alphabetic(int32_t cp); /* L* */

#ifdef __cplusplus
}
#endif
#endif
