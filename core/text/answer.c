/* answer.c - see answer.h: lower case without punctuation first, then words without articles. */
#include "core/text/answer.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

#include "core/unicode/utf8.h"

static bool is_punctuation(int32_t cp) {
    return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
           (cp >= '{' && cp <= '~');
}

/* A character of a word: a letter or any kind of number. */
static bool is_word(int32_t cp) {
    utf8proc_category_t c = utf8proc_category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) ||
           (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

static bool is_space(int32_t cp) {
    if (cp < 0x80) return (cp >= '\t' && cp <= '\r') || (cp >= 0x1C && cp <= ' ');
    utf8proc_category_t c = utf8proc_category(cp);
    return cp == 0x85 || (c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP);
}

enum {
    DOTTED_I = 0x130,
    DOT_ABOVE = 0x307
}; /* the one letter whose lower case is two characters */

static size_t lower(uint8_t *out, const uint8_t *bytes, size_t size) {
    size_t n = 0;
    int32_t cp;
    for (size_t at = 0; at < size;) {
        at += (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
        if (cp < 0 || is_punctuation(cp)) continue;
        n += (size_t)sr_utf8_encode(out + n, cp == DOTTED_I ? 'i' : utf8proc_tolower(cp));
        if (cp == DOTTED_I) n += (size_t)sr_utf8_encode(out + n, DOT_ABOVE);
    }
    return n;
}

static bool is_article(const uint8_t *word, size_t size) {
    return (size == 1 && memcmp(word, "a", 1) == 0) || (size == 2 && memcmp(word, "an", 2) == 0) ||
           (size == 3 && memcmp(word, "the", 3) == 0);
}

/* The size of the run of characters at `at` that are all of a word, or all not. */
static size_t run(const uint8_t *bytes, size_t at, size_t size, bool word) {
    size_t end = at;
    while (end < size) {
        int32_t cp;
        int step = sr_utf8_decode(&cp, bytes + end, size - end);
        if (is_word(cp) != word) break;
        end += (size_t)step;
    }
    return end - at;
}

/* Appends bytes after a space, if one is due. */
static size_t append(uint8_t *out, size_t n, const uint8_t *from, size_t size, bool *space) {
    if (*space && n > 0) out[n++] = ' ';
    *space = false;
    memmove(out + n, from, size);
    return n + size;
}

/* Appends what lies between words: other characters stay, white space becomes a space. */
static size_t between(uint8_t *out, size_t n, const uint8_t *from, size_t size, bool *space) {
    int32_t cp;
    for (size_t at = 0; at < size;) {
        int step = sr_utf8_decode(&cp, from + at, size - at);
        if (is_space(cp))
            *space = true;
        else
            n = append(out, n, from + at, (size_t)step, space);
        at += (size_t)step;
    }
    return n;
}

size_t sr_text_answer(uint8_t *out, const uint8_t *bytes, size_t size) {
    size_t total = lower(out, bytes, size), n = 0;
    bool space = false;
    for (size_t at = 0; at < total;) {
        size_t word = run(out, at, total, true);
        if (is_article(out + at, word))
            space = true;
        else if (word > 0)
            n = append(out, n, out + at, word, &space);
        at += word;
        size_t rest = run(out, at, total, false);
        n = between(out, n, out + at, rest, &space);
        at += rest;
    }
    return n;
}
