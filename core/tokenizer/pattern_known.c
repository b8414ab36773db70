/* pattern_known.c - the patterns of GPT-2, cl100k, Llama 3 and Qwen 2 as programs.
 *
 * Each takes the alternatives of its pattern in their order.  Every character is a letter, a
 * number, white space or another, so every text is covered.
 */
#include "core/tokenizer/pattern_known.h"

#include <string.h>

#include "core/unicode/classes.h"
#include "core/unicode/utf8.h"

enum { L = SR_CLASS_LETTER, N = SR_CLASS_NUMBER, S = SR_CLASS_SPACE, LNS = L | N | S };

/* The class of the character at `at` and where the next one begins. */
static inline int class_at(const uint8_t *bytes, size_t at, size_t size, size_t *next) {
    uint8_t byte = bytes[at];
    if (byte < 0x80) {
        *next = at + 1;
        return sr_class_blocks[sr_class_index[0]][byte] & LNS;
    }
    int32_t cp;
    *next = at + (size_t)sr_utf8_decode(&cp, bytes + at, size - at);
    return sr_class_of(cp) & LNS;
}

/* The end of a run of characters whose class, of L, N and S, is `wanted`. */
static inline size_t run_of(const uint8_t *bytes, size_t at, size_t size, int wanted) {
    for (size_t next; at < size; at = next)
        if (class_at(bytes, at, size, &next) != wanted) break;
    return at;
}

/* \s+(?!\S)|\s+ : white space, but for its last character when something follows. */
static size_t spaces(const uint8_t *bytes, size_t at, size_t size) {
    size_t last = at, end = at, next;
    while (end < size && class_at(bytes, end, size, &next) == S) last = end, end = next;
    return end < size && last > at ? last : end;
}

/* 's 't 're 've 'm 'll 'd after an apostrophe: its length, 0 if there is none. */
static size_t contraction(const uint8_t *bytes, size_t at, size_t size, bool fold) {
    if (at + 1 >= size) return 0;
    uint8_t a = bytes[at + 1], b = at + 2 < size ? bytes[at + 2] : 0;
    if (fold && a == 0xC5 && b == 0xBF) return 3; /* U+017F folds to s */
    if (fold && a >= 'A' && a <= 'Z') a |= 0x20;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (fold && b >= 'A' && b <= 'Z') b |= 0x20;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

size_t sr_scan_gpt2(const uint8_t *bytes, size_t at, size_t size) {
    size_t next, start = at;
    if (bytes[at] == '\'') {
        size_t length = contraction(bytes, at, size, false);
        if (length > 0) return at + length;
    }
    if (bytes[at] == ' ' && at + 1 < size) start = at + 1;
    int class = class_at(bytes, start, size, &next);
    if (class != S) return run_of(bytes, next, size, class);
    return spaces(bytes, at, size);
}

static bool is_break(uint8_t byte) {
    return byte == '\n' || byte == '\r';
}

/* \s*[\r\n]+ (all breaks at the end of it) or \s*[\r\n] (the last one): the end of its last match
 * in the white space [at, end), `at` if there is none. */
static size_t to_break(const uint8_t *bytes, size_t at, size_t end) {
    while (end > at && !is_break(bytes[end - 1])) end--;
    return end;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,most}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+ */
static inline size_t scan_cl100k(const uint8_t *bytes, size_t at, size_t size, int most) {
    size_t next, after;
    if (bytes[at] == '\'') {
        size_t length = contraction(bytes, at, size, true);
        if (length > 0) return at + length;
    }
    int class = class_at(bytes, at, size, &next);
    if (class == L) return run_of(bytes, next, size, L);
    if (class == N) {
        for (int n = 1; n < most && next < size && class_at(bytes, next, size, &after) == N; n++)
            next = after;
        return next;
    }
    if (!is_break(bytes[at]) && next < size && class_at(bytes, next, size, &after) == L)
        return run_of(bytes, after, size, L);
    if (class == 0 ||
        (bytes[at] == ' ' && next < size && class_at(bytes, next, size, &after) == 0)) {
        size_t end = run_of(bytes, next, size, 0);
        while (end < size && is_break(bytes[end])) end++;
        return end;
    }
    size_t end = run_of(bytes, at, size, S), broken = to_break(bytes, at, end);
    return broken > at ? broken : spaces(bytes, at, size);
}

static size_t scan_llama3(const uint8_t *bytes, size_t at, size_t size) {
    return scan_cl100k(bytes, at, size, 3);
}

static size_t scan_qwen2(const uint8_t *bytes, size_t at, size_t size) {
    return scan_cl100k(bytes, at, size, 1);
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

sr_pattern_scan sr_pattern_known(const char *regex) {
    static const struct {
        const char *regex;
        sr_pattern_scan scan;
    } known[] = {
        {GPT2, sr_scan_gpt2},
        {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
         sr_scan_gpt2},
        {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         scan_llama3},
        {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
                      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
         scan_llama3},
        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
         "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
         scan_llama3},
        {CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         scan_qwen2},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(regex, known[i].regex) == 0) return known[i].scan;
    return NULL;
}
