#include "core/tokenizer/pattern_translate.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/classes.h"
#include "core/unicode/utf8.h"

typedef struct translation {
    const sr_json *at; /* for messages */
    const char *from;
    size_t i, length;
    char *out;
    size_t size, room;
    sr_status st;
    int32_t next; /* of the complement of a class: what has not been written yet */
} translation;

static void put(translation *t, const char *text, size_t size) {
    if (t->st != SR_OK) return;
    if (t->size + size >= t->room) {
        size_t room = 2 * (t->size + size) + 256;
        t->st = sr_grow(&t->out, room);
        if (t->st != SR_OK) return;
        t->room = room;
    }
    memcpy(t->out + t->size, text, size);
    t->size += size;
    t->out[t->size] = '\0';
}

static sr_status refuse(translation *t, const char *what) {
    return sr_json_refuse(t->at, "has %s at byte %zu of the pattern, which is not supported", what,
                          t->i);
}

static void put_range(void *context, int32_t first, int32_t last) {
    char text[40];
    if (first >= 0xD800 && first < 0xE000) first = 0xE000; /* no text has surrogates */
    if (last >= 0xD800 && last < 0xE000) last = 0xD7FF;
    if (first > last) return;
    int n = first == last
                ? snprintf(text, sizeof text, "\\x{%X}", (unsigned)first)
                : snprintf(text, sizeof text, "\\x{%X}-\\x{%X}", (unsigned)first, (unsigned)last);
    put(context, text, (size_t)n);
}

static void put_gap(void *context, int32_t first, int32_t last) {
    translation *t = context;
    if (first > t->next) put_range(t, t->next, first - 1);
    t->next = last + 1;
}

/* ---- named classes ---- */

typedef struct named {
    uint32_t categories; /* or */
    int classes;
    bool word; /* with the categories, the others that \w has */
} named;

/* What \w of Oniguruma has but L, M, Nd, Nl and Pc: superscripts and fractions of Latin-1, but
 * not in a class, and letters in circles and squares. */
static const int32_t more_words[][2] = {{0xB2, 0xB3},       {0xB9, 0xB9},       {0xBC, 0xBE},
                                        {0x24B6, 0x24E9},   {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
                                        {0x1F170, 0x1F189}, {INT32_MAX, 0}};

enum { LATIN_WORDS = 3 }; /* of them are of Latin-1 */

typedef struct words {
    sr_class_range range;
    translation *t;
    int more;
} words;

/* Passes on a range, after those of more_words before it. */
static void pass_word(void *context, int32_t first, int32_t last) {
    words *w = context;
    for (; more_words[w->more][0] < first; w->more++)
        w->range(w->t, more_words[w->more][0], more_words[w->more][1]);
    w->range(w->t, first, last);
}

static void put_named(translation *t, named n, bool negated, bool inside) {
    sr_class_range range = negated ? put_gap : put_range;
    t->next = 0;
    if (!inside) put(t, "[", 1);
    if (n.word)
        sr_category_ranges(n.categories, pass_word, &(words){range, t, inside ? LATIN_WORDS : 0});
    else if (n.classes != 0)
        sr_class_ranges(n.classes, range, t);
    else
        sr_category_ranges(n.categories, range, t);
    if (negated && t->next <= 0x10FFFF) put_range(t, t->next, 0x10FFFF);
    if (!inside) put(t, "]", 1);
}

/* The categories of a name such as L or Lu; 0 if there are none. */
static uint32_t categories_of(const char *name, size_t size) {
    uint32_t mask = 0;
    for (int i = 0; sr_categories[i] != NULL; i++)
        if ((size == 1 || size == 2) && memcmp(sr_categories[i], name, size) == 0) mask |= 1u << i;
    return mask;
}

static void put_word(translation *t, bool negated, bool inside) {
    static const char *const names[] = {"L", "M", "Nd", "Nl", "Pc"};
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mask |= categories_of(names[i], strlen(names[i]));
    put_named(t, (named){.categories = mask, .word = true}, negated, inside);
}

/* \b or \B: of the characters on both sides, one is of a word, or not. */
static void put_boundary(translation *t, bool negated) {
    put(t, "(?(?<=", 6);
    put_word(t, false, false);
    put(t, negated ? ")(?=" : ")(?!", 4);
    put_word(t, false, false);
    put(t, negated ? ")|(?!" : ")|(?=", 5);
    put_word(t, false, false);
    put(t, "))", 2);
}

/* An anchor as PCRE2 has it; it cannot be repeated, which would mean different things. */
static sr_status put_anchor(translation *t, const char *anchor) {
    const char *next = t->from + t->i + 1;
    if (next < t->from + t->length && strchr("*+?{", *next) != NULL && *next != '\0')
        return refuse(t, "a quantifier after an anchor");
    if (anchor != NULL)
        put(t, anchor, strlen(anchor));
    else
        put_boundary(t, t->from[t->i] == 'B');
    t->i++;
    return t->st;
}

/* \p{..}, \P{..}, \p{^..}, at the letter. */
static sr_status put_property(translation *t, bool inside) {
    bool negated = t->from[t->i] == 'P';
    const char *open = t->from + t->i + 1, *end = t->from + t->length;
    if (open >= end || *open != '{') return refuse(t, "\\p without a brace");
    const char *name = open + 1, *close = memchr(open, '}', (size_t)(end - open));
    if (close == NULL) return refuse(t, "\\p{ without }");
    if (*name == '^') negated = !negated, name++;
    uint32_t mask = categories_of(name, (size_t)(close - name));
    if (mask == 0) return refuse(t, "a property that is not a general category");
    put_named(t, (named){.categories = mask}, negated, inside);
    t->i = (size_t)(close - t->from) + 1;
    return t->st;
}

/* \x41 or \x{2581}, at the x. */
static sr_status put_hex(translation *t) {
    const char *digits = t->from + t->i + 1;
    size_t left = t->length - t->i - 1, n = 0;
    bool brace = left > 0 && *digits == '{';
    if (brace) digits++, left--;
    uint32_t value = 0;
    for (; n < left && n < (brace ? 8 : 2); n++) {
        const char *hex = strchr("0123456789abcdef", digits[n] | 0x20);
        if (digits[n] == '\0' || hex == NULL || (digits[n] < '0')) break;
        value = value << 4 | (uint32_t)(hex - "0123456789abcdef");
    }
    if (n == 0 || (brace && (n == left || digits[n] != '}')) || value > 0x10FFFF ||
        (!brace && value > 0x7F) || (value >= 0xD800 && value < 0xE000))
        return refuse(t, "a code point");
    put_range(t, (int32_t)value, (int32_t)value);
    t->i = (size_t)(digits - t->from) + n + (brace ? 1 : 0);
    return t->st;
}

/* An escape, at the character after the backslash. */
static sr_status put_escape(translation *t, bool inside) {
    if (t->i >= t->length) return refuse(t, "a backslash at the end");
    char c = t->from[t->i];
    if (c == 'p' || c == 'P') return put_property(t, inside);
    if (c == 'x') return put_hex(t);
    if (!inside && (c == 'b' || c == 'B')) return put_anchor(t, NULL);
    if (!inside && (c == 'A' || c == 'z')) return put_anchor(t, c == 'A' ? "\\A" : "\\z");
    if (strchr("nrtfve", c) != NULL && c != '\0') {
        static const char values[] = "\n\r\t\f\v\x1B";
        int32_t value = (unsigned char)values[strchr("nrtfve", c) - "nrtfve"];
        put_range(t, value, value);
    } else if (c == 's' || c == 'S') {
        put_named(t, (named){.classes = SR_CLASS_SPACE}, c == 'S', inside);
    } else if (c == 'w' || c == 'W') {
        put_word(t, c == 'W', inside);
    } else if (c == 'd' || c == 'D') {
        put_named(t, (named){.categories = categories_of("Nd", 2)}, c == 'D', inside);
    } else if (c > ' ' && c < 0x7F && strchr("0123456789", c) == NULL &&
               !((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
        put_range(t, c, c);
    } else {
        return refuse(t, "an escape");
    }
    t->i++;
    return t->st;
}

/* ---- [..] ---- */

/* One literal character: everything that PCRE2 could read otherwise is written as a number. */
static void put_literal(translation *t) {
    int32_t cp;
    int length = sr_utf8_decode(&cp, (const uint8_t *)t->from + t->i, t->length - t->i);
    put_range(t, cp, cp);
    t->i += (size_t)length;
}

static sr_status put_class(translation *t) {
    t->i++;
    put(t, "[", 1);
    if (t->i < t->length && t->from[t->i] == '^') put(t, "^", 1), t->i++;
    size_t first = t->i;
    for (; t->i < t->length && t->st == SR_OK;) {
        char c = t->from[t->i];
        bool and = c == '&' && t->i + 1 < t->length && t->from[t->i + 1] == '&';
        if (c == ']' && t->i == first) return refuse(t, "an empty class");
        if (c == '[') return refuse(t, "a class in a class");
        if (and) return refuse(t, "an intersection of classes");
        if (c == ']') {
            put(t, "]", 1);
            t->i++;
            return t->st;
        }
        if (c == '-') {
            bool edge = t->i == first || t->i + 1 >= t->length || t->from[t->i + 1] == ']';
            if (edge)
                put_range(t, '-', '-');
            else
                put(t, "-", 1);
            t->i++;
        } else if (c == '\\') {
            t->i++;
            SR_TRY(put_escape(t, true));
        } else {
            put_literal(t);
        }
    }
    return t->st != SR_OK ? t->st : refuse(t, "a class without an end");
}

/* ---- the rest ---- */

/* (?: (?= (?! (?<= (?<! (?> (?i: (?-i: and plain groups, which are not referred to. */
static sr_status put_open(translation *t) {
    static const char *const known[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    const char *from = t->from + t->i;
    size_t left = t->length - t->i;
    if (left < 2 || from[1] != '?') {
        put(t, "(?:", 3);
        t->i++;
        return t->st;
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        size_t size = strlen(known[k]);
        if (left < size || memcmp(from, known[k], size) != 0) continue;
        put(t, known[k], size);
        t->i += size;
        return t->st;
    }
    return refuse(t, "a kind of group");
}

/* {n}, {n,} or {n,m}; Oniguruma reads {n,m}+ as a repetition of it, not as possessive. */
static sr_status put_times(translation *t) {
    size_t end = t->i + 1;
    while (end < t->length && t->from[end] >= '0' && t->from[end] <= '9') end++;
    bool digits = end > t->i + 1;
    if (digits && end < t->length && t->from[end] == ',') end++;
    while (end < t->length && t->from[end] >= '0' && t->from[end] <= '9') end++;
    if (!digits || end >= t->length || t->from[end] != '}') return refuse(t, "a brace");
    if (end + 1 < t->length && (t->from[end + 1] == '+' || t->from[end + 1] == '?'))
        return refuse(t, "a quantifier after a brace");
    put(t, t->from + t->i, end + 1 - t->i);
    t->i = end + 1;
    return t->st;
}

static sr_status put_one(translation *t) {
    char c = t->from[t->i];
    if (c == '\\') {
        t->i++;
        return put_escape(t, false);
    }
    if (c == '[') return put_class(t);
    if (c == '(') return put_open(t);
    if (c == '{') return put_times(t);
    if (c == '^') return put_anchor(t, "(?m:^)"); /* of a line, as in Ruby */
    if (c == '$') return put_anchor(t, "(?m:$)");
    if (c == '.') {
        put(t, "[^\\n]", 5);
        t->i++;
    } else if (strchr(")|*+?", c) != NULL && c != '\0') {
        put(t, &c, 1);
        t->i++;
    } else {
        put_literal(t);
    }
    return t->st;
}

sr_status sr_pattern_translate(char **out, size_t *size, const sr_json *at, const char *regex,
                               size_t length) {
    translation t = {.at = at, .from = regex, .length = length};
    while (t.i < length && t.st == SR_OK) t.st = put_one(&t);
    if (t.st != SR_OK) {
        sr_free(t.out);
        return t.st;
    }
    *out = t.out;
    *size = t.size;
    return SR_OK;
}
