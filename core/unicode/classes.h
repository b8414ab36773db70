/* classes.h - what a code point counts as in Hugging Face's tokenizers.
 *
 * Their libraries have tables of several Unicode versions; hf_classes.inc holds what each code
 * point is to them, measured.  Call sr_classes_init() once before; the tables are constant from
 * then on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/extern.h"

SR_BEGIN_C

enum {
    SR_CLASS_LETTER = 1,    /* \p{L} of a pattern */
    SR_CLASS_NUMBER = 2,    /* \p{N} */
    SR_CLASS_SPACE = 4,     /* White_Space */
    SR_CLASS_NUMERIC = 8,   /* of the pre-tokenizer Digits */
    SR_CLASS_WORD = 16,     /* \w of the pre-tokenizer Whitespace and of single words */
    SR_CLASS_MARK = 32,     /* of the normalizer StripAccents */
    SR_CLASS_PUNCT = 64,    /* of the pre-tokenizers Punctuation and Bert */
    SR_CLASS_EXTENDS = 128, /* joins the grapheme before it */
};

/* Code points that a normal form leaves as they are, and that leave their neighbours as they are;
 * not all of them. */
enum { SR_STABLE_NFC = 1, SR_STABLE_NFD = 2, SR_STABLE_NFKC = 4, SR_STABLE_NFKD = 8 };

void sr_classes_init(void);

extern uint16_t sr_class_index[0x110000 >> 8];
extern uint8_t (*sr_class_blocks)[256];
extern uint8_t sr_stable[0x3000];

static inline int sr_class_of(int32_t cp) {
    return sr_class_blocks[sr_class_index[cp >> 8]][cp & 255];
}

/* Calls `range` for each range [first, last] of code points whose general category is in `mask`,
 * bit i for the i-th of sr_categories. */
typedef void (*sr_class_range)(void *context, int32_t first, int32_t last);
void sr_category_ranges(uint32_t mask, sr_class_range range, void *context);
/* The same for code points with any of these classes. */
void sr_class_ranges(int classes, sr_class_range range, void *context);

/* The names of general categories, NULL at the end. */
extern const char *const sr_categories[];

SR_END_C
