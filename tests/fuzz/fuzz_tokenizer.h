/* fuzz_tokenizer.h - small tokenizer.json files drawn from bytes, and what holds for all of them.
 */
#pragma once

#include <jansson.h>
#include <stdarg.h>

#include "core/tokenizer/tokenizer.h"
#include "core/unicode/text_run.h"
#include "core/unicode/utf8.h"
#include "tests/fuzz/fuzz.h"

/* ---- checks ---- */

static inline void fuzz_check_tokens(const sr_tokens *k, const sr_tokenizer *t, size_t size) {
    for (size_t i = 0; i < k->count; i++) {
        size_t length;
        FUZZ_CHECK(sr_tokenizer_token(t, k->ids[i], &length) != NULL);
        if (!k->want_spans) continue;
        FUZZ_CHECK(k->spans[i].byte_first <= k->spans[i].byte_last);
        FUZZ_CHECK(k->spans[i].byte_last <= size);
        FUZZ_CHECK(k->spans[i].char_first <= k->spans[i].char_last);
    }
}

static inline void fuzz_check_decoding(const sr_tokenizer *t, const sr_tokens *k) {
    char *text = NULL;
    size_t size;
    sr_status status = sr_detokenize(&text, &size, t, k->ids, k->count, true);
    if (status == SR_OK)
        FUZZ_CHECK(text != NULL && text[size] == '\0');
    else
        FUZZ_REFUSED(status);
    sr_free(text);
}

/* The second time, from the cache, the ids must be the same. */
static inline void fuzz_check_again(const sr_tokenizer *t, sr_tokens *plain, const uint8_t *text,
                                    size_t size) {
    size_t first = plain->count;
    FUZZ_CHECK(sr_tokenize(plain, t, text, size) == SR_OK);
    FUZZ_CHECK(plain->count == 2 * first);
    FUZZ_CHECK(first == 0 || memcmp(plain->ids, plain->ids + first, 4 * first) == 0);
    plain->count = first;
}

/* Ids are tokens, positions lie in the text, ids do not depend on positions or on the cache, and
 * decoding does no harm. */
static inline void fuzz_check_text(const sr_tokenizer *t, const uint8_t *text, size_t size) {
    sr_tokens plain = {0}, full = {.want_spans = true, .want_starts = true};
    sr_status status = sr_tokenize(&plain, t, text, size);
    if (status == SR_OK) {
        fuzz_check_again(t, &plain, text, size);
        FUZZ_CHECK(sr_tokenize(&full, t, text, size) == SR_OK);
        FUZZ_CHECK(full.count == plain.count);
        FUZZ_CHECK(plain.count == 0 || memcmp(full.ids, plain.ids, 4 * plain.count) == 0);
        fuzz_check_tokens(&full, t, size);
        fuzz_check_decoding(t, &plain);
        full.count = 0;
        status =
            sr_tokenize_word(&full, t, text, size); /* may have what is removed between words */
        if (status != SR_OK) FUZZ_REFUSED(status);
        fuzz_check_tokens(&full, t, size);
    } else {
        FUZZ_REFUSED(status);
        FUZZ_CHECK(plain.count == 0);
    }
    sr_tokens_free(&plain);
    sr_tokens_free(&full);
}

/* ---- files ---- */

/* The bytes that choose, and the text of JSON that they make. */
typedef struct fuzz_maker {
    const uint8_t *bytes;
    size_t size, used;
    char text[1 << 15];
} fuzz_maker;

/* A choice below `most`, 0 when there are no bytes left. */
static inline int fuzz_draw(fuzz_maker *m, int most) {
    if (m->size == 0) return 0;
    m->size--;
    return *m->bytes++ % most;
}

__attribute__((format(printf, 2, 3))) static inline void fuzz_put(fuzz_maker *m, const char *format,
                                                                  ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    FUZZ_CHECK(n >= 0 && (size_t)n < sizeof m->text - m->used);
    m->used += (size_t)n;
}

static inline const char *fuzz_bool(fuzz_maker *m) {
    return fuzz_draw(m, 2) != 0 ? "true" : "false";
}

/* Strings of JSON: tokens, what is replaced, and what replaces it. */
static const char *const fuzz_strings[] = {
    "a",        "b",
    "c",        " ",
    "\u2581",   "\u0120",
    "#",        "e",
    "\u00e9",   "\u0301",
    "1",        "\\n",
    "\u00c3",   "\u00a9",
    "ab",       "bc",
    "abc",      "aa",
    "\u2581a",  "\u2581\u2581",
    "\u2581ab", "\u0120a",
    "\u0120ab", "##b",
    "##bc",     "##",
    "a\u2581",  "a\u2581b",
    "[UNK]",    "<unk>",
    "<0x41>",   "<0xC3>",
    "<0xA9>",   "<0x0A>",
    "\u4e2d",   "\u03a3",
    "\u01c5",   "\u1100\u1161",
    "\ufb01",   "'s",
    "\u010a",
};
enum { FUZZ_STRINGS = sizeof fuzz_strings / sizeof *fuzz_strings };

static inline const char *fuzz_string(fuzz_maker *m) {
    return fuzz_strings[fuzz_draw(m, FUZZ_STRINGS)];
}

/* A pattern; those of PCRE2 are small, so that they are made quickly. */
static inline void fuzz_pattern(fuzz_maker *m) {
    static const char *const regexes[] = {
        "a+",           " ?[ab]+",   "\\\\s+", "[^\\\\s]+|\\\\s+",
        "(?i:A|b)",     "(?<=a)b",   "a(?!b)", "\\\\d{1,3}",
        "[\\\\r\\\\n]", "x*",        ".",      "(a|ab)(c|bcd)",
        "\\\\S",        "[a-c]{2,}", " {2,}",  "(?=b)",
        "a?",
    };
    int choice = fuzz_draw(m, 34);
    if (choice < 17)
        fuzz_put(m, "{\"Regex\":\"%s\"}", regexes[choice]);
    else
        fuzz_put(m, "{\"String\":\"%s\"}", fuzz_string(m));
}

/* Puts a text into a run, a place a character, with U+FFFD for what is invalid: the characters. */
static inline uint32_t fuzz_load(sr_run *r, const uint8_t *text, size_t size, bool aligned) {
    uint32_t chars = 0;
    sr_run_clear(r, aligned);
    FUZZ_CHECK(sr_run_reserve(r, 0) == SR_OK);
    for (size_t at = 0; at < size; chars++) {
        int32_t cp;
        uint8_t bytes[4];
        at += (size_t)sr_utf8_decode(&cp, text + at, size - at);
        int length = sr_utf8_encode(bytes, cp >= 0 ? cp : SR_UTF8_REPLACEMENT);
        FUZZ_CHECK(sr_run_add(r, bytes, (size_t)length, chars, chars + 1) == SR_OK);
    }
    return chars;
}

/* Puts a list of up to four steps as a Sequence, or null. */
static inline void fuzz_sequence(fuzz_maker *m, const char *list, void (*step)(fuzz_maker *m)) {
    int count = fuzz_draw(m, 5);
    if (count == 0) {
        fuzz_put(m, "null");
        return;
    }
    fuzz_put(m, "{\"type\":\"Sequence\",\"%s\":[", list);
    for (int i = 0; i < count; i++) {
        if (i > 0) fuzz_put(m, ",");
        step(m);
    }
    fuzz_put(m, "]}");
}

/* The same as a value of JSON; bytes that are left are the text. */
static inline json_t *fuzz_part(fuzz_maker *m, const uint8_t *bytes, size_t size, const char *list,
                                void (*step)(fuzz_maker *m)) {
    m->bytes = bytes, m->size = size, m->used = 0;
    fuzz_sequence(m, list, step);
    json_t *value = json_loadb(m->text, m->used, JSON_DECODE_ANY, NULL);
    FUZZ_CHECK(value != NULL);
    return value;
}

/* A map of SentencePiece in base64: a to bc, # to nothing, U+00E9 to e and U+0301. */
static inline const char *fuzz_charsmap(void) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char texts[] = "bc\0\0e\xCC\x81"; /* at 0, 3 and 4 */
    enum { UNITS = 512, LEAF = 1 << 8, FAR = 0x80 << 10, BYTES = 4 + 4 * UNITS + sizeof texts };
    static char out[BYTES / 3 * 4 + 5];
    uint32_t units[1 + UNITS] = {4 * UNITS}, *u = units + 1;
    uint8_t bytes[BYTES + 2] = {0};
    if (out[0] != 0) return out;
    u['a'] = 'a' | LEAF | FAR, u['a' ^ 0x80] = 0;
    u['#'] = '#' | LEAF | FAR, u['#' ^ 0x80] = 3;
    u[0xC3] = 0xC3 | 0x100 << 10;
    u[0x1C3 ^ 0xA9] = 0xA9 | LEAF | FAR, u[0x1C3 ^ 0xA9 ^ 0x80] = 4;
    memcpy(bytes, units, sizeof units);
    memcpy(bytes + sizeof units, texts, sizeof texts);
    size_t n = 0;
    for (size_t i = 0; i < BYTES; i += 3)
        for (int k = 0; k < 4; k++)
            out[n++] =
                digits[(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]) >> (18 - 6 * k) & 63];
    return out; /* what is beyond the end is zero bytes, as if the texts were longer */
}

static inline void fuzz_normalizer_step(fuzz_maker *m) {
    static const char *const plain[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"};
    int kind = fuzz_draw(m, 11);
    if (kind < 6) {
        fuzz_put(m, "{\"type\":\"%s\"}", plain[kind]);
    } else if (kind == 6) {
        fuzz_put(m, "{\"type\":\"Strip\",\"strip_left\":%s,\"strip_right\":%s}", fuzz_bool(m),
                 fuzz_bool(m));
    } else if (kind == 7) {
        fuzz_put(m, "{\"type\":\"Replace\",\"pattern\":");
        fuzz_pattern(m);
        fuzz_put(m, ",\"content\":\"%s\"}", fuzz_draw(m, 4) == 0 ? "" : fuzz_string(m));
    } else if (kind == 8) {
        fuzz_put(m, "{\"type\":\"Prepend\",\"prepend\":\"%s\"}", fuzz_string(m));
    } else if (kind == 9) {
        fuzz_put(m, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}", fuzz_charsmap());
    } else {
        fuzz_put(m,
                 "{\"type\":\"BertNormalizer\",\"clean_text\":%s,\"handle_chinese_chars\":%s,"
                 "\"strip_accents\":%s,\"lowercase\":%s}",
                 fuzz_bool(m), fuzz_bool(m), fuzz_bool(m), fuzz_bool(m));
    }
}

static inline void fuzz_pretokenizer_step(fuzz_maker *m) {
    static const char *const plain[] = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"};
    static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    static const char *const schemes[] = {"always", "first", "never"};
    int kind = fuzz_draw(m, 8);
    if (kind < 3) {
        fuzz_put(m, "{\"type\":\"%s\"}", plain[kind]);
    } else if (kind == 3) {
        fuzz_put(m, "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":%s}",
                 fuzz_bool(m), fuzz_bool(m));
    } else if (kind == 4) {
        fuzz_put(m, "{\"type\":\"Split\",\"pattern\":");
        fuzz_pattern(m);
        fuzz_put(m, ",\"behavior\":\"%s\",\"invert\":%s}", behaviors[fuzz_draw(m, 5)],
                 fuzz_bool(m));
    } else if (kind == 5) {
        fuzz_put(m,
                 "{\"type\":\"Metaspace\",\"replacement\":\"%s\",\"prepend_scheme\":\"%s\","
                 "\"split\":%s}",
                 fuzz_draw(m, 4) == 0 ? "a" : "\u2581", schemes[fuzz_draw(m, 3)], fuzz_bool(m));
    } else if (kind == 6) {
        fuzz_put(m, "{\"type\":\"Digits\",\"individual_digits\":%s}", fuzz_bool(m));
    } else {
        fuzz_put(m, "{\"type\":\"Punctuation\",\"behavior\":\"%s\"}", behaviors[fuzz_draw(m, 5)]);
    }
}
