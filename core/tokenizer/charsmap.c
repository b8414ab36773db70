#include "core/tokenizer/charsmap.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/unicode/chars.h"
#include "core/unicode/classes.h"
#include "core/unicode/utf8.h"

struct sr_charsmap {
    uint32_t *units;
    size_t count;
    char *text;
    size_t size;
    bool same[128]; /* ASCII characters that stay as they are */
};

/* ---- reading ---- */

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64; SR_EINVAL if it is none. */
static sr_status decode(uint8_t **out, size_t *size, const char *text, size_t length) {
    while (length > 0 && text[length - 1] == '=') length--;
    SR_TRY(sr_new(out, length / 4 * 3 + 3));
    uint32_t bits = 0;
    *size = 0;
    for (size_t i = 0; i < length; i++) {
        int value = value_of(text[i]);
        if (value < 0) return SR_EINVAL;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 == 0) continue;
        (*out)[(*size)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return SR_OK;
}

static uint32_t offset_of(uint32_t unit) {
    return (unit >> 10) << ((unit & 512) >> 6);
}

/* What replaces the shortest prefix of `bytes` that is in the map, NULL if none is. */
static const char *find(const sr_charsmap *m, const uint8_t *bytes, size_t size) {
    size_t at = offset_of(m->units[0]);
    for (size_t i = 0; i < size && bytes[i] != 0; i++) {
        at ^= bytes[i];
        if (at >= m->count) return NULL;
        uint32_t unit = m->units[at];
        if ((unit & 0x800000FF) != bytes[i]) return NULL;
        at ^= offset_of(unit);
        if ((unit >> 8 & 1) == 0) continue;
        if (at >= m->count) return NULL;
        size_t value = m->units[at] & 0x7FFFFFFF;
        return value < m->size ? m->text + value : NULL;
    }
    return NULL;
}

static sr_status fill(sr_charsmap *m, const sr_json *at, const uint8_t *bytes, size_t size) {
    uint32_t units = 0;
    if (size >= 4) memcpy(&units, bytes, 4);
    if (size < 8 || units < 4 || units % 4 != 0 || units > size - 4)
        return sr_json_refuse(at, "is not a SentencePiece map of characters");
    m->count = units / 4;
    m->size = size - 4 - units;
    SR_TRY(sr_new(&m->units, m->count));
    SR_TRY(sr_new(&m->text, m->size + 1));
    memcpy(m->units, bytes + 4, units);
    memcpy(m->text, bytes + 4 + units, m->size);
    if (sr_utf8_invalid((const uint8_t *)m->text, m->size, NULL) != 0)
        return sr_json_refuse(at, "has replacements that are not UTF-8");
    for (int c = 1; c < 128; c++) {
        uint8_t byte = (uint8_t)c;
        const char *to = find(m, &byte, 1);
        m->same[c] = to == NULL || (to[0] == c && to[1] == '\0');
    }
    m->same[0] = true;
    m->same['\r'] = false; /* CR LF is one grapheme */
    return SR_OK;
}

sr_status sr_charsmap_read(sr_charsmap **out, const sr_json *at) {
    *out = NULL;
    if (!json_is_string(at->value)) return sr_json_refuse(at, "is not a string");
    sr_classes_init();
    uint8_t *bytes = NULL;
    size_t size = 0;
    sr_charsmap *m = NULL;
    sr_status st =
        decode(&bytes, &size, json_string_value(at->value), json_string_length(at->value));
    if (st == SR_EINVAL) st = sr_json_refuse(at, "is not base64");
    if (st == SR_OK) st = sr_new(&m, 1);
    if (st == SR_OK) st = fill(m, at, bytes, size);
    sr_free(bytes);
    if (st == SR_OK)
        *out = m;
    else
        sr_charsmap_free(m);
    return st;
}

void sr_charsmap_free(sr_charsmap *m) {
    if (m == NULL) return;
    sr_free(m->units);
    sr_free(m->text);
    sr_free(m);
}

/* ---- use ---- */

/* Adds the characters that replace `old` characters. */
static sr_status replace(sr_changes *c, size_t old, const char *text) {
    size_t size = strlen(text), first = c->count;
    for (size_t i = 0; i < size;) {
        int32_t cp;
        i += (size_t)sr_utf8_decode(&cp, (const uint8_t *)text + i, size - i);
        SR_TRY(sr_changes_add(c, cp, 0));
    }
    size_t new = c->count - first;
    for (size_t i = old; i < new; i++) c->list[first + i].change = 1;
    if (new < old && c->count > 0) c->list[c->count - 1].change -= (int32_t)(old - new);
    return SR_OK;
}

/* Whether `next` joins the grapheme that begins with `first` and ends with `last`. */
static bool joins(int32_t first, int32_t last, int32_t next) {
    if (sr_char_is_break(last) || sr_char_is_break(next)) return last == '\r' && next == '\n';
    if ((sr_class_of(next) & SR_CLASS_EXTENDS) != 0 || sr_char_is_prepend(last)) return true;
    return last == 0x200D && sr_char_is_pictographic(first) && sr_char_is_pictographic(next);
}

/* The size of the grapheme at `at`, as far as it matters: one of six bytes and more is read
 * character by character, so clusters of Hangul, flags and the like need not be known. */
static size_t grapheme(const sr_run *in, size_t at, size_t *chars) {
    int32_t first, last, next;
    size_t end = at + (size_t)sr_utf8_decode(&first, in->bytes + at, in->size - at);
    *chars = 1;
    for (last = first; end < in->size; last = next, ++*chars) {
        int length = sr_utf8_decode(&next, in->bytes + end, in->size - end);
        if (!joins(first, last, next)) break;
        end += (size_t)length;
    }
    return end - at;
}

static sr_status apply_each(sr_changes *c, const sr_charsmap *m, const uint8_t *bytes,
                            size_t size) {
    for (size_t i = 0; i < size;) {
        int32_t cp;
        size_t length = (size_t)sr_utf8_decode(&cp, bytes + i, size - i);
        const char *to = find(m, bytes + i, length);
        if (to != NULL)
            SR_TRY(replace(c, 1, to));
        else
            SR_TRY(sr_changes_add(c, cp, 0));
        i += length;
    }
    return SR_OK;
}

static bool stays(const sr_charsmap *m, const sr_run *in) {
    for (size_t i = 0; i < in->size; i++)
        if (in->bytes[i] >= 0x80 || !m->same[in->bytes[i]]) return false;
    return true;
}

sr_status sr_charsmap_apply(sr_run *out, const sr_run *in, const sr_charsmap *m, sr_changes *c,
                            bool *changed) {
    *changed = !stays(m, in);
    if (!*changed) return SR_OK;
    c->count = 0;
    for (size_t at = 0; at < in->size;) {
        uint8_t byte = in->bytes[at];
        if (byte < 0x80 && m->same[byte] && (at + 1 == in->size || in->bytes[at + 1] < 0x80)) {
            SR_TRY(sr_changes_add(c, byte, 0));
            at++;
            continue;
        }
        size_t chars, size = grapheme(in, at, &chars);
        const char *to = size < 6 ? find(m, in->bytes + at, size) : NULL;
        if (to != NULL)
            SR_TRY(replace(c, chars, to));
        else
            SR_TRY(apply_each(c, m, in->bytes + at, size));
        at += size;
    }
    return sr_run_change(out, in, c, 0);
}
